package tree

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
)

// Entry is one member of a handmade archive, of a kind that Argo CD's own sender
// never sends.
type Entry struct {
	Name, Link, Body string
	// Type defaults to a regular file.
	Type byte
	// Mode defaults to 0644.
	Mode int64
}

// Tar writes the members and the end marker.
func Tar(entries ...Entry) []byte {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, entry := range entries {
		header := &tar.Header{Name: entry.Name, Linkname: entry.Link, Typeflag: entry.Type, Mode: entry.Mode, Size: int64(len(entry.Body))}
		if header.Typeflag == 0 {
			header.Typeflag = tar.TypeReg
		}
		if header.Mode == 0 {
			header.Mode = 0o644
		}
		must(writer.WriteHeader(header))
		_, err := writer.Write([]byte(entry.Body))
		must(err)
	}
	must(writer.Close())
	return archive.Bytes()
}

// Gzip compresses into one gzip member.
func Gzip(plain []byte) []byte {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err := writer.Write(plain)
	must(err)
	must(writer.Close())
	return packed.Bytes()
}

// Archive is a compressed archive of the members.
func Archive(entries ...Entry) []byte { return Gzip(Tar(entries...)) }

// must panics on an error; writing to memory cannot fail with valid headers.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("a test archive cannot be written: %v", err))
	}
}
