//! Answers to calls of unknown services and methods.

use http::{HeaderValue, Response};
use tonic::{Code, Status};

use super::wire::{
    health::health_server, plugin::config_management_plugin_service_server as plugin_server,
    version::version_service_server,
};

/// The services whose unknown methods are named. Reflection is left out: only tools use it.
const SERVICES: [&str; 3] = [
    plugin_server::SERVICE_NAME,
    health_server::SERVICE_NAME,
    version_service_server::SERVICE_NAME,
];

/// Longest path that an answer repeats, in bytes: it is sent as a header.
const MAX_PATH: usize = 1024;

/// Adds the error text of Go's server to the answer; tonic sends no text.
pub(super) fn explain<B>(path: &str, mut answer: Response<B>) -> Response<B> {
    let lacks_text = !answer.headers().contains_key(Status::GRPC_MESSAGE);
    let code =
        answer.headers().get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()));
    if code == Some(Code::Unimplemented) && lacks_text && path.len() <= MAX_PATH {
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
        None => {
            let mut text = "malformed method name: ".to_owned();
            cmp_go::quote(path, &mut text);
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(path: &str) -> Option<String> {
        let answer = Response::builder().header("grpc-status", "12").body(()).unwrap();
        let message = explain(path, answer).headers_mut().remove("grpc-message")?;
        Some(message.to_str().unwrap().to_owned())
    }

    #[test]
    fn answers_name_the_unknown_method_or_service() {
        assert_eq!(
            message("/plugin.ConfigManagementPluginService/Future").as_deref(),
            Some("unknown method Future for service plugin.ConfigManagementPluginService")
        );
        assert_eq!(message("/other.Service/Any").as_deref(), Some("unknown service other.Service"));
        assert_eq!(message("nonsense").as_deref(), Some("malformed method name: \"nonsense\""));
        assert_eq!(message("a\u{200B}").as_deref(), Some("malformed method name: \"a\\u200b\""));
        assert_eq!(message(&"/".repeat(MAX_PATH + 1)), None);
    }

    #[test]
    fn other_answers_stay_unchanged() {
        let answer = Response::builder().header("grpc-status", "0").body(()).unwrap();
        assert!(!explain("/a/b", answer).headers().contains_key("grpc-message"));
    }
}
