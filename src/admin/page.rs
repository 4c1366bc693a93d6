//! The requested page, and the right to ask for it.

use std::net::IpAddr;

use http::{HeaderMap, Method, Request, StatusCode, header};

use super::Audience;

/// Answer to a request for an unknown path.
const PAGES: &str = "not found: use /, /metrics, /livez, /readyz, /startupz, /plugins, /requests, /events, \
                     /-/log-level, or POST /-/reload";

/// Answers to a wrong method.
const USE_GET: &str = "method not allowed: use GET";
const USE_GET_OR_PUT: &str = "method not allowed: use GET or PUT";
const USE_POST: &str = "method not allowed: use POST";

/// The status code of a refused request, and the reason.
type Refusal = (StatusCode, &'static str);

/// The requested page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Status,
    Metrics(Format),
    Alive(Detail),
    Ready(Detail),
    Plugins,
    Requests,
    Events,
    LogLevel,
    SetLogLevel,
    Reload,
}

/// The format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Format {
    Prometheus,
    OpenMetrics,
}

/// The length of a probe's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// One word if all is well.
    Brief,
    /// One line for each check (`?verbose`).
    Verbose,
}

impl Page {
    pub(super) fn of<B>(
        request: &Request<B>,
        audience: Audience,
        peer: IpAddr,
    ) -> Result<Self, Refusal> {
        let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
        let is = |method| *request.method() == method;
        let (page, is_right, refusal) = match request.uri().path() {
            "/" => (Self::Status, is_reading, USE_GET),
            "/metrics" => (Self::Metrics(Format::accepted(request.headers())), is_reading, USE_GET),
            "/livez" => (Self::Alive(Detail::of(request)), is_reading, USE_GET),
            "/readyz" | "/startupz" => (Self::Ready(Detail::of(request)), is_reading, USE_GET),
            "/plugins" => (Self::Plugins, is_reading, USE_GET),
            "/requests" => (Self::Requests, is_reading, USE_GET),
            "/events" => (Self::Events, is_reading, USE_GET),
            "/-/log-level" if is_reading => (Self::LogLevel, true, USE_GET_OR_PUT),
            "/-/log-level" => (Self::SetLogLevel, is(Method::PUT), USE_GET_OR_PUT),
            "/-/reload" => (Self::Reload, is(Method::POST), USE_POST),
            _ => return Err((StatusCode::NOT_FOUND, PAGES)),
        };
        if !is_right {
            return Err((StatusCode::METHOD_NOT_ALLOWED, refusal));
        }
        page.allowed(request.headers(), audience, peer)
    }

    fn allowed(
        self,
        headers: &HeaderMap,
        audience: Audience,
        peer: IpAddr,
    ) -> Result<Self, Refusal> {
        let is_order = self.is_order();
        let is_near = peer.to_canonical().is_loopback();
        let refusal = match audience {
            Audience::Public if self.is_for_operators() => {
                "forbidden: ask at the address of --admin-http"
            }
            // Only processes in the Pod may cause work. The rest of the cluster may not.
            Audience::Everybody if is_order && !is_near => {
                "forbidden: call this from the Pod's loopback address"
            }
            // A browser that reaches the address may show pages of others.
            Audience::Everybody | Audience::Operators
                if is_order && headers.contains_key(header::ORIGIN) =>
            {
                "forbidden: web pages may not give orders"
            }
            Audience::Everybody | Audience::Public | Audience::Operators => return Ok(self),
        };
        Err((StatusCode::FORBIDDEN, refusal))
    }

    /// True for orders, which change something.
    pub(super) fn is_order(self) -> bool {
        matches!(self, Self::Reload | Self::SetLogLevel)
    }

    /// True for orders, and for the pages that show what they change or the requests.
    fn is_for_operators(self) -> bool {
        match self {
            Self::Requests | Self::LogLevel | Self::SetLogLevel | Self::Reload => true,
            Self::Status
            | Self::Metrics(_)
            | Self::Alive(_)
            | Self::Ready(_)
            | Self::Plugins
            | Self::Events => false,
        }
    }
}

impl Format {
    /// The format that a client accepts. Prometheus names both, and prefers this one.
    fn accepted(headers: &HeaderMap) -> Self {
        let lists = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let types = lists.flat_map(|list| list.split(','));
        let mut types = types.map(|each| each.split(';').map(str::trim));
        let is_meant = types.any(|mut words| {
            words.next() == Some("application/openmetrics-text") && !words.any(|word| word == "q=0")
        });
        if is_meant { Self::OpenMetrics } else { Self::Prometheus }
    }
}

impl Detail {
    /// `?verbose`, with or without a value, as for components of Kubernetes.
    fn of<B>(request: &Request<B>) -> Self {
        let mut parameters = request.uri().query().unwrap_or_default().split('&');
        let is_verbose = |parameter: &str| parameter.split('=').next() == Some("verbose");
        if parameters.any(is_verbose) { Self::Verbose } else { Self::Brief }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(method: &str, path: &str, peer: &str) -> Result<Page, u16> {
        page_for(Audience::Everybody, method, path, peer)
    }

    fn page_for(audience: Audience, method: &str, path: &str, peer: &str) -> Result<Page, u16> {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        let page = Page::of(&request, audience, peer.parse().unwrap());
        page.map_err(|(status, _)| status.as_u16())
    }

    #[test]
    fn each_path_has_its_page() {
        assert_eq!(page("GET", "/", "10.0.0.1"), Ok(Page::Status));
        assert_eq!(page("GET", "/livez", "10.0.0.1"), Ok(Page::Alive(Detail::Brief)));
        assert_eq!(page("HEAD", "/readyz", "10.0.0.1"), Ok(Page::Ready(Detail::Brief)));
        for query in ["verbose", "verbose=true", "a&verbose"] {
            let verbose = page("GET", &format!("/readyz?{query}"), "10.0.0.1");
            assert_eq!(verbose, Ok(Page::Ready(Detail::Verbose)), "{query}");
        }
        assert_eq!(page("GET", "/plugins", "10.0.0.1"), Ok(Page::Plugins));
        assert_eq!(page("GET", "/requests", "10.0.0.1"), Ok(Page::Requests));
        assert_eq!(page("GET", "/events", "10.0.0.1"), Ok(Page::Events));
        assert_eq!(page("GET", "/-/log-level", "10.0.0.1"), Ok(Page::LogLevel));
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        assert_eq!(page("GET", "/other", "127.0.0.1"), Err(404));
        assert_eq!(page("POST", "/metrics", "127.0.0.1"), Err(405));
        assert_eq!(page("GET", "/-/reload", "127.0.0.1"), Err(405));
        assert_eq!(page("POST", "/-/log-level", "127.0.0.1"), Err(405));
    }

    #[test]
    fn only_the_pod_may_give_orders() {
        for (method, path, order) in
            [("POST", "/-/reload", Page::Reload), ("PUT", "/-/log-level", Page::SetLogLevel)]
        {
            for near in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
                assert_eq!(page(method, path, near), Ok(order), "{near}");
            }
            for far in ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "0.0.0.0"] {
                assert_eq!(page(method, path, far), Err(403), "{far}");
            }
        }
    }

    #[test]
    fn operators_with_an_address_of_their_own_give_orders_only_there() {
        for (method, path, page) in [
            ("POST", "/-/reload", Page::Reload),
            ("PUT", "/-/log-level", Page::SetLogLevel),
            ("GET", "/-/log-level", Page::LogLevel),
            ("GET", "/requests", Page::Requests),
        ] {
            for peer in ["127.0.0.1", "10.0.0.1"] {
                assert_eq!(page_for(Audience::Public, method, path, peer), Err(403), "{path}");
                let answer = page_for(Audience::Operators, method, path, peer);
                assert_eq!(answer, Ok(page), "{path}");
            }
        }
        for path in ["/", "/metrics", "/livez", "/readyz", "/startupz", "/plugins", "/events"] {
            for audience in [Audience::Public, Audience::Operators] {
                assert!(page_for(audience, "GET", path, "10.0.0.1").is_ok(), "{path}");
            }
        }
    }

    #[test]
    fn openmetrics_is_sent_to_clients_that_accept_it() {
        for (accept, format) in [
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2",
                Format::OpenMetrics,
            ),
            ("text/plain, application/openmetrics-text; q=0", Format::Prometheus),
            ("*/*", Format::Prometheus),
        ] {
            let request = Request::get("/metrics").header("Accept", accept).body(()).unwrap();
            let page = Page::of(&request, Audience::Public, "10.0.0.1".parse().unwrap());
            assert_eq!(page, Ok(Page::Metrics(format)), "{accept}");
        }
    }

    #[test]
    fn pages_in_a_browser_may_not_give_orders() {
        for audience in [Audience::Everybody, Audience::Public, Audience::Operators] {
            for (method, path) in [("POST", "/-/reload"), ("PUT", "/-/log-level")] {
                let request = Request::builder().method(method).uri(path);
                let request = request.header("Origin", "http://evil.example").body(()).unwrap();
                let near = "127.0.0.1".parse().unwrap();
                assert_eq!(Page::of(&request, audience, near).unwrap_err().0, 403);
            }
        }
    }
}
