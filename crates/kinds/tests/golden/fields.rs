//! Groups `01-defaults` and `12-fields`: one object created, the answer compared.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compare::{differences, normal};
use super::{record, server};

/// How many cases match. These only grow.
const FLOOR_DEFAULTS: usize = 30;
const FLOOR_FIELDS: usize = 3831;

/// Plays the creations of a group; answers how many match and how many there are. `GOLDEN_SHOW=regex` prints what
/// differs in the cases whose id matches.
fn play(group: &str) -> Option<(usize, usize)> {
    let show = std::env::var("GOLDEN_SHOW").ok();
    let mut kinds: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut shown = 0;
    for case in record::cases(group)? {
        let id = case["id"].as_str().unwrap();
        let step = &case["steps"][0];
        // Reviews are answered by the API server itself.
        if ["authentication", "authorization"].iter().any(|g| id.contains(&format!("/{g}.k8s.io."))) {
            continue;
        }
        let (want_code, mut want) = (step["status"].as_u64().unwrap(), normal(&step["answer"]));
        let (code, got, warnings) = match server::create(step["path"].as_str().unwrap(), &step["body"]) {
            Ok(answer) => (u64::from(answer.code), answer.body, answer.warnings),
            Err(status) => (u64::from(status.code()), serde_json::to_value(&status).unwrap(), Vec::new()),
        };
        let mut found = Vec::new();
        if code != want_code {
            found.push(format!("status: kubernetes {want_code}, here {code}"));
        }
        differences(&want.take(), &normal(&got), "", &mut found);
        let mut warnings: Vec<Value> = warnings.into_iter().map(|w| json!(format!("{w:?}"))).collect();
        warnings.sort_by_key(Value::to_string);
        let kind = id.split('/').nth(1).unwrap().to_owned();
        let count = kinds.entry(kind).or_default();
        count.1 += 1;
        if found.is_empty() {
            count.0 += 1;
        } else if let Some(pattern) = &show
            && format!("{id} want={want_code} got={code}").contains(pattern.as_str())
            && shown < 60
        {
            shown += 1;
            eprintln!("{id} want={want_code} got={code}");
            found.iter().take(6).for_each(|d| eprintln!("    {}", d.chars().take(600).collect::<String>()));
        }
    }
    if show.is_some() {
        for (kind, (good, all)) in &kinds {
            eprintln!("{kind:60} {good:4}/{all}");
        }
    }
    Some(kinds.values().fold((0, 0), |(g, a), (x, y)| (g + x, a + y)))
}

#[test]
fn a_minimal_object_of_each_kind_gets_its_defaults() {
    let Some((good, all)) = play("01-defaults") else { return };
    eprintln!("01-defaults: {good} of {all}");
    assert!(good >= FLOOR_DEFAULTS, "{good} of {all}");
}

#[test]
fn a_field_set_to_something_is_defaulted_or_refused() {
    let Some((good, all)) = play("12-fields") else { return };
    eprintln!("12-fields: {good} of {all}");
    assert!(good >= FLOOR_FIELDS, "{good} of {all}");
}
