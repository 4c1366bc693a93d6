//! The page in the format OpenMetrics 1.0: Prometheus' format with other names in
//! declarations, an end, and exemplars.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{Kind, Method, PluginMetrics, page::escaped, requests::DURATION};

/// The end of a name that only samples of counters have.
const TOTAL: &str = "_total";

/// The last request with a trace in each bucket of durations, by series. There are as
/// many as there are buckets. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Exemplars(Arc<Mutex<BTreeMap<String, Exemplar>>>);

#[derive(Clone, Debug)]
struct Exemplar {
    trace_id: String,
    took: Duration,
    at: SystemTime,
}

impl Exemplars {
    fn keep(&self, plugin: &str, method: Method, exemplar: Exemplar) {
        let series = start(plugin) + &bucket(method, exemplar.took);
        self.all().insert(series, exemplar);
    }

    pub(super) fn forget(&self, plugin: &str) {
        let start = start(plugin);
        self.all().retain(|series, _| !series.starts_with(&start));
    }

    /// Converts the page for Prometheus.
    pub(super) fn page(&self, page: &str) -> String {
        let all = self.all();
        let mut converted = String::with_capacity(page.len());
        for line in page.lines().filter(|line| !line.is_empty()) {
            match declaration(line) {
                Some(line) => converted.push_str(&line),
                None => converted.push_str(line),
            }
            let series = line.rsplit_once(' ').map(|(series, _)| series);
            if let Some(exemplar) = series.and_then(|series| all.get(series)) {
                exemplar.write(&mut converted);
            }
            converted.push('\n');
        }
        converted + "# EOF\n"
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Exemplar>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exemplar {
    fn write(&self, text: &mut String) {
        let Self { trace_id, took, at } = self;
        let (took, at) = (took.as_secs_f64(), at.duration_since(UNIX_EPOCH).unwrap_or_default());
        // Writing to a String cannot fail.
        let _ = write!(text, " # {{trace_id=\"{trace_id}\"}} {took} {:.3}", at.as_secs_f64());
    }
}

/// The beginning of a plugin's series.
fn start(plugin: &str) -> String {
    format!("{}_bucket{{plugin=\"{}\",", DURATION.name, escaped(plugin))
}

/// The rest of the series of a bucket.
fn bucket(method: Method, took: Duration) -> String {
    let Kind::Histogram(bounds) = DURATION.kind else { return String::new() };
    let bound = bounds.iter().find(|bound| took.as_secs_f64() <= **bound);
    let bound = bound.map_or("+Inf".to_owned(), f64::to_string);
    format!("method=\"{}\",le=\"{bound}\"}}", method.as_str())
}

/// The declaration of a counter, whose name has no `_total` here.
fn declaration(line: &str) -> Option<String> {
    let mut words = line.splitn(4, ' ');
    let (mark, word, name, rest) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let name = name.strip_suffix(TOTAL).filter(|_| mark == "#")?;
    Some(format!("{mark} {word} {name} {rest}"))
}

impl PluginMetrics {
    /// Keeps the trace of a request that ended as an example of its duration. That of a
    /// removed plugin, whose last requests end later, would stay for ever.
    pub fn exemplar(&self, method: Method, took: Duration, trace_id: String) {
        let exemplar = Exemplar { trace_id, took, at: SystemTime::now() };
        self.metrics.exemplars.keep(&self.plugin, method, exemplar);
        if self.metrics.plugins.is_gone(&self.plugin) {
            self.metrics.exemplars.forget(&self.plugin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Ended, Metrics, Outcome};

    #[test]
    fn counters_are_declared_without_total_and_the_page_has_an_end() {
        let page = "# HELP a_total x y\n# TYPE a_total counter\na_total 1\n\n# TYPE b gauge\nb 2\n";
        let expected = "# HELP a x y\n# TYPE a counter\na_total 1\n# TYPE b gauge\nb 2\n# EOF\n";
        assert_eq!(Exemplars::default().page(page), expected);
    }

    #[test]
    fn the_bucket_of_a_duration_has_its_trace() {
        let metrics = Metrics::new();
        let plugin = metrics.plugin("p");
        for millis in [700, 400_000] {
            let took = Duration::from_millis(millis);
            plugin.begun(Method::Generate);
            plugin.ended(&Ended {
                method: Method::Generate,
                outcome: Outcome::Ok,
                took,
                timeout: None,
                kill: None,
                fault: None,
                not_started: false,
                deadline_used: None,
            });
            plugin.exemplar(Method::Generate, took, format!("trace-{millis}"));
        }
        let shown = |page: &str| {
            let lines = page.lines().filter(|line| line.contains("# {trace_id"));
            lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect::<Vec<_>>()
        };
        let start = "argocd_cmp_request_duration_seconds_bucket{plugin=\"p\",method=\"generate\",";
        let expected = [
            format!("{start}le=\"1\"}} 1 # {{trace_id=\"trace-700\"}} 0.7"),
            format!("{start}le=\"+Inf\"}} 2 # {{trace_id=\"trace-400000\"}} 400"),
        ];
        assert_eq!(shown(&metrics.render_openmetrics()), expected);
        assert!(shown(&metrics.render()).is_empty());
        metrics.plugin_gone("p");
        assert!(shown(&metrics.render_openmetrics()).is_empty());
        let took = Duration::from_millis(700);
        plugin.exemplar(Method::Generate, took, "late".to_owned());
        assert!(metrics.exemplars.0.lock().unwrap().is_empty());
        metrics.plugin("p").exemplar(Method::Generate, took, "new".to_owned());
        assert!(metrics.render_openmetrics().contains("# {trace_id=\"new\"} 0.7 "));
    }
}
