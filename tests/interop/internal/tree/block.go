package tree

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// BlockSize is the size of a block in a tar archive, in bytes.
const BlockSize = 512

// The magic values of the two formats.
const (
	Ustar = "ustar\x0000"
	GNU   = "ustar  \x00"
)

// Block is a header whose fields are written exactly as given, even if no
// archiver would. Numbers are texts; an empty one is 0.
type Block struct {
	Name, Mode, UID, GID, Size, Time, Link, Prefix string
	// Type defaults to a regular file; TypeNUL is the oldest mark of one.
	Type byte
	// Magic defaults to Ustar.
	Magic string
	// At has additional bytes by their offset.
	At map[int]string
}

// TypeNUL marks a regular file in the oldest archives.
const TypeNUL = 0xff

// Bytes is the encoded header with its checksum.
func (b Block) Bytes() []byte {
	block := make([]byte, BlockSize)
	for offset, text := range map[int]string{0: b.Name, 100: b.Mode, 108: b.UID, 116: b.GID, 124: b.Size, 136: b.Time, 157: b.Link, 345: b.Prefix} {
		copy(block[offset:], text)
	}
	copy(block[257:], Ustar)
	if b.Magic != "" {
		copy(block[257:], b.Magic)
	}
	switch b.Type {
	case 0:
		block[156] = '0'
	case TypeNUL:
	default:
		block[156] = b.Type
	}
	for offset, text := range b.At {
		copy(block[offset:], text)
	}
	Sign(block)
	return block
}

// Sign corrects a header's checksum.
func Sign(block []byte) {
	const from, to = 148, 156
	copy(block[from:to], "        ")
	sum := 0
	for _, value := range block {
		sum += int(value)
	}
	copy(block[from:to], fmt.Sprintf("%06o\x00 ", sum))
}

// Octal is a number in the usual form of headers.
func Octal(value int) string { return strconv.FormatInt(int64(value), 8) }

// Member is a header with contents; the header should state their length.
func Member(header Block, body string) []byte {
	if header.Size == "" {
		header.Size = Octal(len(body))
	}
	return append(header.Bytes(), Padded(body)...)
}

// Padded is contents, padded to a whole block.
func Padded(body string) []byte {
	padding := -len(body) & (BlockSize - 1)
	return append([]byte(body), make([]byte, padding)...)
}

// Extended is a member with extended records, of type 'x' for the next member or
// 'g' for all following members.
func Extended(kind byte, records ...string) []byte {
	return Member(Block{Name: "PaxHeaders/x", Type: kind}, string(bytes.Join(texts(records), nil)))
}

// Record is `length key=value`; the length includes itself.
func Record(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	length := len(rest)
	for len(strconv.Itoa(length))+len(rest) != length {
		length = len(strconv.Itoa(length)) + len(rest)
	}
	return strconv.Itoa(length) + rest
}

// Long is the GNU member that gives the next one a long name ('L') or target ('K').
func Long(kind byte, text string) []byte {
	return Member(Block{Name: "././@LongLink", Type: kind, Magic: GNU}, text+"\x00")
}

// End is the mark after the last member.
func End() []byte { return make([]byte, 2*BlockSize) }

// Join concatenates members without the end mark.
func Join(members ...[]byte) []byte { return slices.Concat(members...) }

func texts(all []string) [][]byte {
	converted := make([][]byte, len(all))
	for i, text := range all {
		converted[i] = []byte(text)
	}
	return converted
}
