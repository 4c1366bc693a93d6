//! The HTTP servers: one for everybody, or two if operators have an address of their own.

use cmp_sandbox::Tier;
use tokio::net::TcpListener;
use tracing::info;

use super::{NotServing, parts::Parts};
use crate::{
    admin::{self, Admin, Askers, Audience, Sources},
    config::{Http, Serve},
    settings::{self, Setting},
};

/// The sockets of the HTTP servers.
pub(super) struct Listeners {
    usual: Option<TcpListener>,
    operators: Option<TcpListener>,
    askers: Askers,
}

impl Listeners {
    /// Call this inside a tokio runtime.
    pub(super) fn open(config: &Serve, tier: Tier) -> Result<Self, NotServing> {
        let usual = listen(config.http, &settings::HTTP)?;
        let operators = listen(config.admin_http, &settings::ADMIN_HTTP)?;
        for (listener, served) in
            [(&usual, "serving metrics and health"), (&operators, "serving orders and details")]
        {
            if let Some(listener) = listener {
                info!(address = %listener.local_addr()?, "{served}");
            }
        }
        let uids = tier.has_own_uids().then(|| config.uid_range.0.clone());
        Ok(Self { usual, operators, askers: Askers::new(uids) })
    }

    /// Serves until the runtime ends. Each server has places and time limits of its own,
    /// so that clients of one cannot keep those of the other out.
    pub(super) fn serve(self, sources: &Sources, parts: &Parts) {
        let everybody =
            if self.operators.is_some() { Audience::Public } else { Audience::Everybody };
        for (name, listener, audience) in [
            ("http", self.usual, everybody),
            ("http for operators", self.operators, Audience::Operators),
        ] {
            if let Some(listener) = listener {
                let admin = Admin::new(sources.clone(), audience, self.askers.clone());
                parts.run(name, admin.run(listener, parts.tasks().clone()));
            }
        }
    }
}

fn listen(http: Http, setting: &Setting) -> Result<Option<TcpListener>, NotServing> {
    let Http::On(address) = http else { return Ok(None) };
    let flag = setting.flag.map_or("", |flag| flag.name);
    let listener = admin::listen(address);
    listener.map(Some).map_err(|error| NotServing::Http { flag, address, error })
}
