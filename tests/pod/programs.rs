//! Programs of Python that take memory which hides. Each is for one `python3 -c`.

/// 1.5 GB of pages that belong to no mapping.
pub(crate) const DROPPED: &str = "
import os, mmap, time
for n in range(10):
  if os.fork() == 0:
    m = mmap.mmap(-1, 150 << 20)
    for i in range(0, 150 << 20, 4096): m[i] = 1
    m.madvise(mmap.MADV_DONTNEED)
    time.sleep(20); os._exit(0)
time.sleep(20)
";

/// Full buffers of sockets, until the limit of descriptors.
pub(crate) const SOCKETS: &str = "
import os, socket, time
for n in range(20):
  if os.fork() == 0:
    kept = []
    try:
      while len(kept) < 450:
        pair = socket.socketpair(); kept.append(pair)
        for s in pair:
          s.setblocking(False)
          try:
            while True: s.send(b\"x\" * 65536)
          except OSError: pass
    except OSError: pass
    time.sleep(15); os._exit(0)
time.sleep(20)
";
