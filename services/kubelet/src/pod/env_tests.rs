use super::*;
use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use serde_json::json;

struct Fake;

#[async_trait]
impl Objects for Fake {
    async fn config_map(&self, _: &str, name: &str) -> Result<Arc<ConfigMap>> {
        if name != "map" {
            return Err(Error::NotFound(format!("configmap \"{name}\" not found")));
        }
        Ok(Arc::new(serde_json::from_value(json!({"data": {"k": "v", "B": "from-map"}})).unwrap()))
    }

    async fn secret(&self, _: &str, name: &str) -> Result<Arc<Secret>> {
        if name != "secret" {
            return Err(Error::NotFound(format!("secret \"{name}\" not found")));
        }
        Ok(Arc::new(serde_json::from_value(json!({"data": {"p": "czNjcmV0"}})).unwrap()))
    }

    async fn token(&self, _: &str, _: &str, _: TokenRequestSpec) -> Result<TokenRequest> {
        Err(Error::Api("none".into()))
    }
}

async fn of(container: serde_json::Value) -> Result<Env> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [container], "nodeName": "node"},
    }))
    .unwrap();
    let services: Vec<Arc<Service>> = vec![
        Arc::new(serde_json::from_value(json!({"metadata": {"name": "web-a", "namespace": "n"},
            "spec": {"clusterIP": "10.96.0.7", "ports": [{"name": "http-x", "port": 80}, {"port": 53, "protocol": "UDP"}]}})).unwrap()),
        Arc::new(serde_json::from_value(json!({"metadata": {"name": "kubernetes", "namespace": "default"},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443}]}})).unwrap()),
        Arc::new(serde_json::from_value(json!({"metadata": {"name": "headless", "namespace": "n"},
            "spec": {"clusterIP": "None", "ports": [{"port": 1}]}})).unwrap()),
    ];
    let around = Surroundings { pod_ips: vec!["1.2.3.4".into()], ..Surroundings::default() };
    make(&pod, &pod.spec.as_ref().unwrap().containers[0], &around, &Fake, &services).await
}

#[tokio::test]
async fn sources_and_order() {
    let env = of(json!({"name": "c",
        "envFrom": [{"prefix": "M_", "configMapRef": {"name": "map"}}, {"configMapRef": {"name": "none", "optional": true}}],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)-$(M_k)-$(WEB_A_SERVICE_HOST)-$(LATER)"},
            {"name": "LATER", "value": "x"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "p"}}},
            {"name": "OPT", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "no", "optional": true}}},
        ]}))
    .await
    .unwrap();
    assert_eq!(env["B"], "1-v-10.96.0.7-$(LATER)", "only what stands before is known");
    assert_eq!((env["IP"].as_str(), env["NODE"].as_str(), env["S"].as_str()), ("1.2.3.4", "node", "s3cret"));
    assert_eq!(env["M_B"], "from-map");
    assert!(!env.contains_key("OPT"));
}

#[tokio::test]
async fn what_is_missing_is_said() {
    for (source, text) in [
        (json!({"configMapKeyRef": {"name": "map", "key": "no"}}), "couldn't find key no in ConfigMap n/map"),
        (json!({"secretKeyRef": {"name": "secret", "key": "no"}}), "couldn't find key no in Secret n/secret"),
        (json!({"configMapKeyRef": {"name": "none", "key": "no"}}), "configmap \"none\" not found"),
    ] {
        let error = of(json!({"name": "c", "env": [{"name": "X", "valueFrom": source}]})).await.unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[tokio::test]
async fn services_as_variables() {
    let env = of(json!({"name": "c"})).await.unwrap();
    for (name, value) in [
        ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
        ("KUBERNETES_SERVICE_PORT", "443"),
        ("KUBERNETES_SERVICE_PORT_HTTPS", "443"),
        ("KUBERNETES_PORT", "tcp://10.96.0.1:443"),
        ("KUBERNETES_PORT_443_TCP", "tcp://10.96.0.1:443"),
        ("WEB_A_SERVICE_PORT_HTTP_X", "80"),
        ("WEB_A_PORT_53_UDP", "udp://10.96.0.7:53"),
        ("WEB_A_PORT_53_UDP_PROTO", "udp"),
    ] {
        assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!env.keys().any(|name| name.starts_with("HEADLESS")));
}
