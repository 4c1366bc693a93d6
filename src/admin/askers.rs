//! Those who may give orders: requests may not, although they share the loopback address.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr, UdpSocket},
    ops::RangeInclusive,
};

use cmp_procfs::tcp_owner;

use crate::volume::FileThread;

/// Refuses the orders of requests, by the owner of the socket that gives them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Askers {
    /// UIDs that only requests have; `None` if they have that of the supervisor.
    requests: Option<RangeInclusive<u32>>,
    /// The tables of sockets can be long.
    tables: FileThread,
}

/// The two addresses of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) peer: SocketAddr,
    pub(super) own: SocketAddr,
}

impl Askers {
    /// Knows the UIDs of requests, if they have any of their own.
    pub(crate) fn new(requests: Option<RangeInclusive<u32>>) -> Self {
        Self { requests, tables: FileThread::new() }
    }

    /// The reason why this client may not give orders. A client of this host whose socket has
    /// no owner may be a request that has closed it, so only those that are known may.
    pub(super) async fn refusal(&self, Ends { peer, own }: Ends) -> Option<String> {
        let requests = self.requests.as_ref()?;
        let owner = self.tables.run(move || {
            // The kernel may leave out a socket while others come and go.
            let look = || tcp_owner(peer, own);
            let owner = look()?.map_or_else(look, |owner| Ok(Some(owner)))?;
            Ok::<_, io::Error>((owner, owner.is_none() && is_of_this_host(peer)))
        });
        match owner.await.and_then(|looked| looked) {
            Ok((Some(uid), _)) if requests.contains(&uid) => {
                Some("forbidden: commands of plugins may not give orders".to_owned())
            }
            Ok((Some(_), _) | (None, false)) => None,
            Ok((None, true)) => Some(
                "forbidden: it is not known who asks: keep the connection open until the answer"
                    .to_owned(),
            ),
            Err(error) => {
                Some(format!("forbidden: it is not known who asks: /proc/self/net/tcp: {error}"))
            }
        }
    }
}

/// True if a socket of this host can have this address.
fn is_of_this_host(peer: SocketAddr) -> bool {
    let ip = peer.ip().to_canonical();
    let bound = match ip {
        IpAddr::V4(_) => UdpSocket::bind((ip, 0)),
        IpAddr::V6(_) => {
            // Its scope stays.
            let mut address = peer;
            address.set_port(0);
            UdpSocket::bind(address)
        }
    };
    ip.is_loopback() || !bound.is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        time::Duration,
    };

    use rustix::process::getuid;
    use tokio::time::sleep;

    use super::*;

    /// A client and the supervisor's end of its connection.
    fn connected() -> (TcpStream, TcpStream, Ends) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        let own = accepted.local_addr().unwrap();
        (client, accepted, Ends { peer, own })
    }

    /// UIDs with that of this process.
    fn with_own() -> Askers {
        Askers::new(Some(getuid().as_raw()..=getuid().as_raw()))
    }

    #[tokio::test]
    async fn only_those_with_another_uid_than_requests_may_give_orders() {
        let (_client, _accepted, ends) = connected();
        let other = getuid().as_raw() + 1;
        assert_eq!(Askers::new(Some(other..=other)).refusal(ends).await, None);
        assert_eq!(Askers::new(None).refusal(ends).await, None);
        let refusal = with_own().refusal(ends).await.unwrap();
        assert!(refusal.contains("commands of plugins"), "{refusal}");
    }

    #[tokio::test]
    async fn a_client_that_has_closed_its_socket_is_refused() {
        let (client, _accepted, ends) = connected();
        drop(client);
        let askers = with_own();
        // A child that another test has forked has it too, until it executes its program.
        for _ in 0..6000 {
            if askers.refusal(ends).await.unwrap().contains("not known who asks") {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("it counts as open");
    }

    #[tokio::test]
    async fn a_client_elsewhere_is_no_request() {
        let (_client, _accepted, ends) = connected();
        let peer = SocketAddr::from(([192, 0, 2, 1], 9));
        assert_eq!(with_own().refusal(Ends { peer, ..ends }).await, None);
    }
}
