//! Calls of what does not exist.

use http::{HeaderValue, Response};
use tonic::{Code, Status};

use super::wire::{
    health::health_server, plugin::config_management_plugin_service_server as plugin_server,
    version::version_service_server,
};

/// The services whose methods are known; reflection's are for tools.
const SERVICES: [&str; 3] = [
    plugin_server::SERVICE_NAME,
    health_server::SERVICE_NAME,
    version_service_server::SERVICE_NAME,
];

/// Longest path that is repeated, in bytes: the answer is a header.
const MAX_PATH: usize = 1024;

/// Says what it is that does not exist, in the words of Go's server: tonic
/// leaves the text out.
pub(super) fn explain<B>(path: &str, mut answer: Response<B>) -> Response<B> {
    let is_silent = !answer.headers().contains_key(Status::GRPC_MESSAGE);
    let code =
        answer.headers().get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()));
    if code == Some(Code::Unimplemented) && is_silent && path.len() <= MAX_PATH {
        let text = HeaderValue::from_str(&text(path));
        answer.headers_mut().extend(text.ok().map(|text| (Status::GRPC_MESSAGE, text)));
    }
    answer
}

fn text(path: &str) -> String {
    match path.strip_prefix('/').and_then(|path| path.rsplit_once('/')) {
        Some((service, method)) if SERVICES.contains(&service) => {
            format!("unknown method {method} for service {service}")
        }
        Some((service, _)) => format!("unknown service {service}"),
        None => format!("malformed method name: {path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str) -> Option<String> {
        let answer = Response::builder().header("grpc-status", "12").body(()).unwrap();
        let message = explain(path, answer).headers_mut().remove("grpc-message")?;
        Some(message.to_str().unwrap().to_owned())
    }

    #[test]
    fn what_is_unknown_is_named() {
        assert_eq!(
            told("/plugin.ConfigManagementPluginService/Future").as_deref(),
            Some("unknown method Future for service plugin.ConfigManagementPluginService")
        );
        assert_eq!(told("/other.Service/Any").as_deref(), Some("unknown service other.Service"));
        assert_eq!(told("nonsense").as_deref(), Some("malformed method name: nonsense"));
        assert_eq!(told(&"/".repeat(MAX_PATH + 1)), None);
    }

    #[test]
    fn other_answers_stay_as_they_are() {
        let answer = Response::builder().header("grpc-status", "0").body(()).unwrap();
        assert!(!explain("/a/b", answer).headers().contains_key("grpc-message"));
    }
}
