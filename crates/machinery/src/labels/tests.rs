use serde_json::json;

use super::*;

fn error(text: &str) -> String {
    Selector::parse(text).unwrap_err().to_string()
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn selectors_are_written_as_they_are_read() {
    for (text, written) in [
        ("", ""),
        ("a=b", "a=b"),
        ("x==y , a!=b", "a!=b,x==y"),
        ("x in (c,a,b)", "x in (a,b,c)"),
        ("x notin ()", "x notin ()"),
        ("x in (,a)", "x in (,a)"),
        ("x in (a,,)", "x in (,a)"),
        ("!x,y", "!x,y"),
        ("x>1,y<2", "x>1,y<2"),
        ("x=", "x="),
        ("in=notin", "in=notin"),
        ("x in (in, notin)", "x in (in,notin)"),
    ] {
        assert_eq!(Selector::parse(text).unwrap().to_string(), written, "{text}");
    }
}

#[test]
fn errors_are_upstreams() {
    assert_eq!(error("tier in ("), "unable to parse requirement: found '', expected: ',', ')' or identifier");
    assert_eq!(error("=a"), "found '=', expected: !, identifier, or 'end of string'");
    assert_eq!(error("a b"), "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
    assert_eq!(error("a,,b"), "found ',', expected: identifier after ','");
    assert_eq!(error("a=b c"), "found 'c', expected: ',' or 'end of string'");
    assert_eq!(error("!=a"), "found '!=', expected: !, identifier, or 'end of string'");
    assert_eq!(error("!"), "unable to parse requirement: found '', expected: identifier");
    assert_eq!(error("a in b"), "unable to parse requirement: found 'b' expected: '('");
    assert_eq!(error("a in (b c)"), "unable to parse requirement: found 'c', expected: ',' or ')'");
    assert_eq!(
        error("x/y/z=1"),
        "unable to parse requirement: <nil>: Invalid value: \"x/y/z\": a valid label key must consist of alphanumeric \
         characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
         'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an \
         optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
    );
    assert_eq!(
        error(&format!("tier={}", "v".repeat(64))),
        format!(
            "unable to parse requirement: values[0][tier]: Invalid value: \"{}\": must be no more than 63 bytes",
            "v".repeat(64)
        )
    );
    assert_eq!(
        error("a>b"),
        "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"
    );
}

#[test]
fn labels_match_or_not() {
    let web = labels(&[("app", "web"), ("n", "5")]);
    for (text, matches) in [
        ("", true),
        ("app=web", true),
        ("app!=web", false),
        ("other!=web", true),
        ("app in (a,web)", true),
        ("app notin (a,web)", false),
        ("other notin (a)", true),
        ("app,!other", true),
        ("n>4,n<6", true),
        ("n>5", false),
        ("app>1", false),
    ] {
        assert_eq!(Selector::parse(text).unwrap().matches(&web), matches, "{text}");
    }
    assert!(!Selector::nothing().matches(&web));
    assert_eq!(Selector::parse("app=web").unwrap().requires_exact("app"), Some("web"));
}

#[test]
fn label_selectors_of_objects() {
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "tier", "operator": "NotIn", "values": ["db"]}, {"key": "x", "operator": "Exists"}]});
    let parsed = Selector::from_label_selector(&selector).unwrap();
    assert_eq!(parsed.to_string(), "app=web,tier notin (db),x");
    assert!(parsed.matches(&labels(&[("app", "web"), ("x", "")])));
    assert!(Selector::from_label_selector(&json!({})).unwrap().matches(&labels(&[])));
    assert!(!Selector::from_label_selector(&Value::Null).unwrap().matches(&labels(&[])));
    assert_eq!(
        Selector::from_label_selector(&json!({"matchExpressions": [{"key": "a", "operator": "Foo"}]}))
            .unwrap_err()
            .to_string(),
        "\"Foo\" is not a valid label selector operator"
    );
}

#[test]
fn validation_names_the_fields() {
    let selector = json!({"matchLabels": {"-": "v v"}, "matchExpressions": [
        {"key": "a", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["x"]}, {"key": "", "operator": "Foo"}]});
    let errors = validate_selector(&selector, Options::default(), &Path::new("spec").child("selector"));
    let fields: Vec<(&str, &str)> = errors.iter().map(|e| (e.field.as_str(), e.error_type.reason())).collect();
    assert_eq!(
        fields,
        [
            ("spec.selector.matchLabels", "FieldValueInvalid"),
            ("spec.selector.matchLabels", "FieldValueInvalid"),
            ("spec.selector.matchExpressions[0].values", "FieldValueRequired"),
            ("spec.selector.matchExpressions[1].values", "FieldValueForbidden"),
            ("spec.selector.matchExpressions[2].operator", "FieldValueInvalid"),
            ("spec.selector.matchExpressions[2].key", "FieldValueInvalid"),
            ("spec.selector.matchExpressions[2].key", "FieldValueInvalid"),
        ]
    );
}
