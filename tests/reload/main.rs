//! Definitions that change while they are served.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod client;
#[cfg(test)]
mod directories;
#[cfg(test)]
mod endpoints;
#[cfg(test)]
mod exhausted;
#[cfg(test)]
mod files;
#[cfg(test)]
mod kubelet;
#[cfg(test)]
mod loaded;
#[cfg(test)]
mod mounts;
#[cfg(test)]
mod reader;
#[cfg(test)]
mod server;
#[cfg(test)]
mod sockets;
#[cfg(test)]
mod steps;
