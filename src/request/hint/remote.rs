//! Advice about what clients print when a server is unknown to them, or they to it.

use super::denial::unwrapped;

/// Messages about a certificate whose authority is unknown: of Go, OpenSSL, Node.js,
/// `GnuTLS` and Rust.
const UNKNOWN_AUTHORITY: [&str; 6] = [
    "certificate signed by unknown authority",
    "unable to get local issuer certificate",
    "self-signed certificate in certificate chain",
    "self signed certificate in certificate chain",
    "server certificate verification failed",
    "invalid peer certificate: UnknownIssuer",
];

const AUTHORITY: &str = "it does not know the authority of the server's certificate: mount that \
                         authority's certificate at /etc/ssl/certs/NAME.pem, or name it in \
                         SSL_CERT_FILE, GIT_SSL_CAINFO or NODE_EXTRA_CA_CERTS; if it is a Secret, also \
                         in spec.sandbox.read";

/// Messages of git without a terminal, if nothing answers its question for a user.
const NO_USER: [&str; 2] = ["could not read Username for '", "could not read Password for '"];

const PASSWORD: &str = "git has no password for this server: if it is the one of the application's \
                        repository, set spec.provideGitCreds: true; for another, mount a Secret, set a \
                        credential.helper with the file, and name the file in spec.sandbox.read";

/// The message of helm and of other clients of OCI registries, if they have no account.
const NO_ACCOUNT: &str = "basic credential not found";

const REGISTRY: &str = "it has no account for this registry: mount a Secret with the file config.json, \
                        and name its directory in DOCKER_CONFIG of the sidecar and in \
                        spec.sandbox.read";

/// The message of kustomize for a function that is a container.
const NO_RUNTIME: &str = "couldn't execute function: exec: \"docker\": executable file not found";

const FUNCTION: &str = "a sidecar cannot start containers: use a function that is a program, with \
                        --enable-exec, or put its result into the repository";

/// The remedy for a server that does not let the command in.
pub(super) fn advice(text: &str) -> Option<&'static str> {
    let text = unwrapped(text);
    let says = |words: &&str| text.contains(words);
    // kustomize asks with its own client before it calls git, so an error may have both.
    let known = [
        (&NO_USER[..], PASSWORD),
        (&UNKNOWN_AUTHORITY, AUTHORITY),
        (&[NO_ACCOUNT], REGISTRY),
        (&[NO_RUNTIME], FUNCTION),
    ];
    known.into_iter().find(|(words, _)| words.iter().any(says)).map(|(_, remedy)| remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_refuse_have_a_remedy() {
        for (text, remedy) in [
            (
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
                AUTHORITY,
            ),
            (
                "curl: (60) SSL certificate problem: unable to get local issuer certificate",
                AUTHORITY,
            ),
            (
                "fatal: server certificate verification failed. CAfile: none CRLfile: none",
                AUTHORITY,
            ),
            ("GET \"https://host/v2/web/manifests/1\": basic credential not found", REGISTRY),
            ("fatal: could not read Username for 'https://host': No such device", PASSWORD),
            (
                "x509: certificate signed by unknown authority': failed to run 'git fetch': fatal: \
              could not read Username for 'https://host': terminal prompts disabled",
                PASSWORD,
            ),
            (
                "Error: couldn't execute function: exec: \"docker\": executable file not found in $PATH",
                FUNCTION,
            ),
        ] {
            assert_eq!(advice(text), Some(remedy), "{text}");
        }
        for other in ["x509: certificate has expired", "401 Unauthorized", "cannot read Username"] {
            assert_eq!(advice(other), None, "{other}");
        }
    }
}
