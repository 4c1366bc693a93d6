//! Metrics, logs and pages of a running supervisor.

mod answers;
mod browser;
mod live;
mod logs;
mod operators;
mod pages;
mod prometheus;
mod request;
mod rules;
mod status_page;
mod traces;
mod watch;
