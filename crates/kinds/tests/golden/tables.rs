//! Group `04-tables`: columns and cells of the objects of the cases.

use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_kinds::Registry;

use super::{record, server};

/// How many Tables match. It only grows.
const FLOOR: usize = 37;

#[test]
fn columns_and_cells_are_those_of_kubernetes() {
    let Some(cases) = record::cases("04-tables") else { return };
    let (mut good, mut all) = (0, 0);
    for case in &cases {
        let steps = case["steps"].as_array().unwrap();
        let Some((get, create)) =
            steps.iter().find(|s| s["method"] == "GET").zip(steps.iter().find(|s| s["method"] == "POST"))
        else {
            continue;
        };
        let table = &get["answer"];
        if table["kind"] != "Table" || table["rows"].as_array().is_none_or(|r| r.len() != 1) {
            continue;
        }
        all += 1;
        let path = create["path"].as_str().unwrap();
        let Ok(answer) = server::create(path, &create["body"]) else {
            eprintln!("{}: not created", case["id"]);
            continue;
        };
        let gvk = trireme_machinery::meta::gvk(&answer.body);
        let kind = Registry::builtin().by_kind(&gvk.group, &gvk.version, &gvk.kind).unwrap();
        let columns: Vec<Value> = kind
            .hooks
            .columns()
            .iter()
            .map(|c| json!({"name": c.name, "type": c.ty, "format": c.format, "priority": c.priority}))
            .collect();
        let wanted: Vec<Value> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| json!({"name": c["name"], "type": c["type"], "format": c["format"], "priority": c["priority"]}))
            .collect();
        let cells: Vec<Value> = kind.cells(&answer.body, Timestamp::now()).into_iter().map(plain).collect();
        let wanted_cells: Vec<Value> =
            table["rows"][0]["cells"].as_array().unwrap().iter().cloned().map(plain).collect();
        if columns == wanted && cells == wanted_cells {
            good += 1;
        } else {
            eprintln!("{}\n    kubernetes {wanted_cells:?}\n    here       {cells:?}", case["id"]);
            if columns != wanted {
                eprintln!("    columns differ: {wanted:?}\n    {columns:?}");
            }
        }
    }
    eprintln!("04-tables: {good} of {all}");
    assert!(good >= FLOOR, "{good} of {all}");
}

/// A cell without what differs from run to run.
fn plain(cell: Value) -> Value {
    match cell.as_str() {
        Some(text) if text.ends_with('s') && text[..text.len() - 1].parse::<u32>().is_ok() => "<age>".into(),
        Some(text) if text.len() == 20 && text.ends_with('Z') => "<time>".into(),
        _ => cell,
    }
}
