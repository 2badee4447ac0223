use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// What Kubernetes' own code makes of a list of texts: text, error, canonical form, value, milli value, and sum with,
/// difference to and order against the quantity before.
const RECORDED: &str = include_str!("testdata.jsonl");

#[test]
fn quantities_are_what_kubernetes_makes_of_them() {
    let mut before: Option<Quantity> = None;
    for line in RECORDED.lines() {
        let case: Vec<Value> = serde_json::from_str(line).unwrap();
        let text = case[0].as_str().unwrap();
        let quantity = match Quantity::parse(text) {
            Ok(quantity) => quantity,
            Err(error) => {
                assert_eq!(Some(error.to_string().as_str()), case[1].as_str(), "{text}");
                continue;
            }
        };
        assert_eq!(case[1], Value::Null, "{text} is refused");
        assert_eq!(quantity.to_string(), case[2], "canonical form of {text}");
        assert_eq!(quantity.value().to_string(), case[3], "value of {text}");
        assert_eq!(quantity.milli_value().to_string(), case[4], "milli value of {text}");
        if let Some(before) = &before {
            assert_eq!(before.add(&quantity).to_string(), case[5], "{before} + {text}");
            assert_eq!(before.sub(&quantity).to_string(), case[6], "{before} - {text}");
            assert_eq!(before.cmp(&quantity) as i64, case[7], "{before} <=> {text}");
        }
        before = Some(quantity);
    }
}

#[test]
fn equality_is_by_amount() {
    let of = |text| Quantity::parse(text).unwrap();
    assert_eq!(of("1"), of("1000m"));
    assert!(of("1Ki") > of("1k"));
    assert!(of("-1") < of("0"));
    assert!(of("1e90000") > of("1e80000"));
    assert!(of("-1e90000") < of("-1e80000"));
    assert_eq!(of("1500m").value(), 2);
    assert_eq!(of("500m").mul(3).to_string(), "1500m");
    assert!(Quantity::parse("1e999999999999").is_err());
}

proptest! {
    #[test]
    fn canonical_forms_are_fixed_points(text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,6})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|e[0-9]|E-[0-9])?") {
        let first = Quantity::parse(&text).unwrap();
        // Sums have no kept text, so this is the computed form.
        let canonical = first.add(&Quantity::zero()).to_string();
        let second = Quantity::parse(&canonical).unwrap();
        prop_assert_eq!(&first, &second);
        prop_assert_eq!(second.add(&Quantity::zero()).to_string(), canonical);
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,24}") {
        let _ = Quantity::parse(&text);
    }

    #[test]
    fn numbers_in_no_form_make_it_panic(text in "[+-]?[0-9.]{0,30}[eEinumkKMGTP]{0,2}[+-]?[0-9]{0,5}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            let _ = (quantity.to_string(), quantity.value(), quantity.milli_value());
        }
    }

    #[test]
    fn sums_and_differences_undo_each_other(a in "[0-9]{1,9}(m|Mi|k)?", b in "[0-9]{1,9}(m|Gi|)") {
        let (a, b) = (Quantity::parse(&a).unwrap(), Quantity::parse(&b).unwrap());
        prop_assert_eq!(a.add(&b).sub(&b), a);
    }
}
