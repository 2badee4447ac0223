//! `pods/log`, streamed from the kubelet.

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, Method};
use http_body_util::{BodyExt as _, BodyStream};
use serde_json::Value;
use trireme_machinery::field;
use trireme_machinery::gvk::{GroupResource, GroupVersionKind};
use trireme_machinery::path::Path;
use trireme_machinery::status::Status;

use super::Subresources;
use super::kubelet::empty;
use crate::pipeline::options::flag;
use crate::pipeline::{Answer, Body, Context, RawAnswer, Request};

/// Parameters that go to the kubelet as they come.
const FORWARDED: [&str; 8] =
    ["follow", "previous", "timestamps", "sinceSeconds", "sinceTime", "tailLines", "limitBytes", "stream"];

impl Subresources {
    pub(super) async fn logs(&self, _context: &Context, request: &Request) -> Result<Answer, Status> {
        check(request)?;
        let info = &request.info;
        let pod = self.inner.objects.get(&self.inner.pods, &info.namespace, &info.name).await?.value();
        let container = container(&pod, request.param("container").unwrap_or_default(), &info.name)?;
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() {
            // Not yet scheduled: there are no logs, and that is no error.
            return Ok(Answer::Raw(RawAnswer {
                code: 204,
                content_type: String::new(),
                headers: Vec::new(),
                body: Body::Full(Bytes::new()),
            }));
        }
        let location = self.inner.kubelets.locate(node).await?;
        let path = format!("/containerLogs/{}/{}/{container}?{}", info.namespace, info.name, forwarded(request));
        let verify = !flag(request, "insecureSkipTLSVerifyBackend").unwrap_or(false);
        let answer = self.inner.kubelets.send(&location, Method::GET, &path, HeaderMap::new(), empty(), verify).await?;
        let code = answer.status().as_u16();
        if !(200..=206).contains(&code) {
            let body = answer.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            return Err(refused(code, &String::from_utf8_lossy(&body), &info.name));
        }
        let stream = BodyStream::new(answer.into_body())
            .try_filter_map(|frame| async { Ok(frame.into_data().ok()) })
            .map(|chunk| chunk.map_err(std::io::Error::other));
        Ok(text(Body::Stream(Box::pin(stream))))
    }
}

fn forwarded(request: &Request) -> String {
    let pairs = request.query.iter().filter(|(key, _)| FORWARDED.contains(&key.as_str()));
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn text(body: Body) -> Answer {
    Answer::Raw(RawAnswer { code: 200, content_type: "text/plain".to_owned(), headers: Vec::new(), body })
}

/// A kubelet's refusal as ours.
fn refused(code: u16, body: &str, pod: &str) -> Status {
    let body = body.trim_end();
    match code {
        500 => Status::internal(body),
        400 => Status::bad_request(body),
        code => Status::generic(code, "", &GroupResource::new("", "pods/log"), pod, body),
    }
}

fn check(request: &Request) -> Result<(), Status> {
    let mut errors = Vec::new();
    let number = |name: &str| -> Result<Option<i64>, Status> {
        let Some(text) = request.param(name) else { return Ok(None) };
        let wrong = || {
            let why = trireme_machinery::go::quote(text);
            Status::bad_request(format!("strconv.ParseInt: parsing {why}: invalid syntax"))
        };
        text.parse().map(Some).map_err(|_| wrong())
    };
    let mut at_least = |name: &str, least: i64, detail: &str| -> Result<(), Status> {
        if let Some(value) = number(name)?.filter(|value| *value < least) {
            errors.push(field::invalid(&Path::new(name), &value, detail));
        }
        Ok(())
    };
    at_least("tailLines", 0, "must be greater than or equal to 0")?;
    at_least("limitBytes", 1, "must be greater than 0")?;
    if request.param("sinceSeconds").is_some() && request.param("sinceTime").is_some() {
        // Upstream's path of an empty name.
        errors
            .push(field::forbidden(&Path::new("[]"), "at most one of `sinceTime` or `sinceSeconds` may be specified"));
    } else if let Some(value) = number("sinceSeconds")?.filter(|value| *value < 1) {
        errors.push(field::invalid(&Path::new("sinceSeconds"), &value, "must be greater than 0"));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupVersionKind::new("", "v1", "PodLogOptions"), &request.info.name, errors))
}

/// The container that is meant: the one that is named, or the only one.
pub(super) fn container(pod: &Value, asked: &str, name: &str) -> Result<String, Status> {
    let names = |list: &str| -> Vec<&str> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str()).collect()
    };
    let (containers, init, ephemeral) = (names("containers"), names("initContainers"), names("ephemeralContainers"));
    if !asked.is_empty() {
        if containers.contains(&asked) || init.contains(&asked) || ephemeral.contains(&asked) {
            return Ok(asked.to_owned());
        }
        return Err(Status::bad_request(format!("container {asked} is not valid for pod {name}")));
    }
    match containers.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => Err(Status::bad_request(format!("a container name must be specified for pod {name}"))),
        _ => {
            let all = [init, containers, ephemeral].concat().join(" ");
            Err(Status::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{all}]"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_container_must_be_clear() {
        let one = json!({"spec": {"containers": [{"name": "a"}]}});
        assert_eq!(container(&one, "", "p").unwrap(), "a");
        let two = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}});
        let error = container(&two, "", "p").unwrap_err();
        assert_eq!(error.message, "a container name must be specified for pod p, choose one of: [i a b]");
        assert_eq!(container(&two, "i", "p").unwrap(), "i");
        assert_eq!(container(&two, "x", "p").unwrap_err().message, "container x is not valid for pod p");
    }
}
