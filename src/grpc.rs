//! gRPC over Unix sockets, the protocol that Argo CD speaks.
//!
//! No other module uses tonic or the protobuf messages.

mod acceptor;
mod account;
mod announcements;
mod ask_pass;
mod authority;
mod backend;
mod bind;
mod call;
mod call_error;
mod client;
mod connection;
mod cost;
mod encoded;
mod first_call;
mod health;
mod leftovers;
mod observed;
mod occupant;
mod open_calls;
mod pace;
mod refusals;
mod request_id;
mod room;
mod service;
mod services;
mod socket_watch;
mod staging;
mod status;
mod stream;
mod sweep;
mod timeout;
mod unknown;
mod unread;
mod version;
mod warning_pause;
mod wire;

pub use announcements::encode_announcements;
pub use ask_pass::{Answer, ask, relay};
pub use backend::{Backend, Recorders};
pub use bind::{Binder, check_length, directory_remedy};
pub use client::{Client, ClientError, Configuration, Parcel, Refusal};
pub use open_calls::OpenCalls;
pub use room::Room;
pub use stream::Drains;
pub use sweep::sweep;
