//! The number inside a quantity: `value × 10^scale`, in 64 bits while it fits and in big integers when not.
//!
//! Which of the two holds a number can be seen from outside (it decides rounding and overflow), so the rules of when
//! one becomes the other are Kubernetes'.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

/// Powers of ten above this are not computed; two numbers so far apart are compared by magnitude.
const MAX_RESCALE: i64 = 200_000;

/// `value × 10^scale`.
#[derive(Debug, Clone)]
pub(super) enum Amount {
    /// In 64 bits.
    Small { value: i64, scale: i32 },
    /// In a big integer.
    Big { value: BigInt, scale: i32 },
}

// === impl Amount ===

impl Amount {
    pub(super) const ZERO: Self = Self::Small { value: 0, scale: 0 };

    pub(super) fn sign(&self) -> Ordering {
        match self {
            Self::Small { value, .. } => value.cmp(&0),
            Self::Big { value, .. } => match value.sign() {
                Sign::Minus => Ordering::Less,
                Sign::NoSign => Ordering::Equal,
                Sign::Plus => Ordering::Greater,
            },
        }
    }

    pub(super) fn big(&self) -> (BigInt, i32) {
        match self {
            Self::Small { value, scale } => (BigInt::from(*value), *scale),
            Self::Big { value, scale } => (value.clone(), *scale),
        }
    }

    pub(super) fn negated(&self) -> Self {
        match self {
            Self::Small { value, scale } => match value.checked_neg() {
                Some(value) => Self::Small { value, scale: *scale },
                None => Self::Big { value: -BigInt::from(*value), scale: *scale },
            },
            Self::Big { value, scale } => Self::Big { value: -value.clone(), scale: *scale },
        }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        if let (Self::Small { value: a, scale: s }, Self::Small { value: b, scale: t }) = (self, other) {
            let small = match (a, b) {
                (_, 0) => return self.clone(),
                (0, _) => return other.clone(),
                _ if s >= t => raise(*a, s - t).and_then(|a| a.checked_add(*b)).map(|value| (value, *t)),
                _ => raise(*b, t - s).and_then(|b| a.checked_add(b)).map(|value| (value, *s)),
            };
            if let Some((value, scale)) = small {
                return Self::Small { value, scale };
            }
        }
        let ((a, s), (b, t)) = (self.big(), other.big());
        let scale = s.min(t);
        Self::Big { value: a * power_of_ten(s - scale) + b * power_of_ten(t - scale), scale }
    }

    pub(super) fn times(&self, factor: i64) -> Self {
        if let Self::Small { value, scale } = self
            && let Some(value) = value.checked_mul(factor)
            && (*scale <= 0 || raise(value, *scale).is_some())
        {
            return Self::Small { value, scale: if value == 0 { 0 } else { *scale } };
        }
        let (value, scale) = self.big();
        Self::Big { value: value * factor, scale }
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let signs = self.sign().cmp(&other.sign());
        if signs != Ordering::Equal || self.sign() == Ordering::Equal {
            return signs;
        }
        let ((a, s), (b, t)) = (self.big(), other.big());
        let magnitude =
            |value: &BigInt, scale: i32| value.to_string().trim_start_matches('-').len() as i64 + i64::from(scale);
        if i64::from(s).abs_diff(i64::from(t)) as i64 > 40 {
            let by_magnitude = magnitude(&a, s).cmp(&magnitude(&b, t));
            if by_magnitude != Ordering::Equal {
                return if self.sign() == Ordering::Greater { by_magnitude } else { by_magnitude.reverse() };
            }
        }
        let scale = s.min(t);
        (a * power_of_ten(s - scale)).cmp(&(b * power_of_ten(t - scale)))
    }

    /// The number of units of `10^scale`, rounded away from zero.
    pub(super) fn scaled(&self, scale: i32) -> i64 {
        match self {
            Self::Small { value, scale: own } if *own < scale => lower(*value, scale - own).0,
            Self::Small { value, scale: own } => raise_wrapping(*value, own - scale),
            Self::Big { value, scale: own } => big_scaled(value, i64::from(scale) - i64::from(*own)),
        }
    }

    /// The same with no digits below `10^scale`, rounded away from zero; and whether nothing was lost.
    pub(super) fn rounded_up(&self, scale: i32) -> (Self, bool) {
        match self {
            Self::Small { scale: own, .. } if *own >= scale => (self.clone(), true),
            Self::Small { value, scale: own } => {
                let (value, exact) = lower(*value, scale - own);
                (Self::Small { value, scale }, exact)
            }
            Self::Big { value, scale: own } if *own >= scale => {
                (Self::Big { value: value * power_of_ten(own - scale), scale }, true)
            }
            Self::Big { value, scale: own } => {
                let divisor = power_of_ten(scale - own);
                let (mut quotient, remainder) = (value / &divisor, value % &divisor);
                let exact = remainder.sign() == Sign::NoSign;
                if !exact {
                    quotient += if value.sign() == Sign::Minus { -1 } else { 1 };
                }
                (Self::Big { value: quotient, scale }, exact)
            }
        }
    }

    /// The digits, and the power of ten (a multiple of three) that follows them.
    pub(super) fn canonical_decimal(&self) -> (String, i32) {
        let (value, scale) = self.big();
        let digits = value.to_string();
        let zeros = if self.sign() == Ordering::Equal { 0 } else { digits.len() - digits.trim_end_matches('0').len() };
        let exponent = i64::from(scale) + zeros as i64;
        let padding = exponent.rem_euclid(3);
        let kept = &digits[..digits.len() - zeros];
        (format!("{kept}{}", "0".repeat(padding as usize)), (exponent - padding) as i32)
    }

    /// The digits, and the power of 1024 that follows them; the amount must be whole.
    pub(super) fn canonical_binary(&self) -> (String, i32) {
        let (mut value, scale) = self.big();
        if scale >= 0 {
            value *= power_of_ten(scale);
        } else {
            value /= power_of_ten(-scale);
        }
        let mut times = 0;
        while value.sign() != Sign::NoSign && (&value % 1024u32).sign() == Sign::NoSign {
            value /= 1024u32;
            times += 1;
        }
        (value.to_string(), times)
    }

    /// The nearest float, roughly.
    pub(super) fn approximate(&self) -> f64 {
        let (value, scale) = self.big();
        value.to_string().parse::<f64>().unwrap_or_default() * 10f64.powi(scale)
    }
}

/// `value ÷ 10^by`, rounded up, in 64 bits: beyond them Kubernetes wraps around, and so do we.
fn big_scaled(value: &BigInt, by: i64) -> i64 {
    let low = wrapped(value);
    if by <= 0 {
        // Go converts powers of ten that do not fit to the least integer.
        return low.wrapping_mul(u32::try_from(-by).ok().and_then(|by| 10i64.checked_pow(by)).unwrap_or(i64::MIN));
    }
    let (quotient, exact) = if by < 19 && *value < BigInt::from(i64::MAX) {
        let divisor = 10i64.pow(by as u32);
        (low / divisor, low % divisor == 0)
    } else {
        let divisor = power_of_ten(by.min(MAX_RESCALE) as i32);
        let (mut quotient, remainder) = (value / &divisor, value % &divisor);
        if remainder.sign() == Sign::Minus {
            quotient -= 1;
        }
        (wrapped(&quotient), remainder.sign() == Sign::NoSign)
    };
    if exact { quotient } else { quotient.wrapping_add(1) }
}

/// `value × 10^by`, if it fits.
fn raise(value: i64, by: i32) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    10i64.checked_pow(by.try_into().ok()?)?.checked_mul(value)
}

/// `value × 10^by` in 64 bits; what does not fit wraps around for the usual powers and is nothing for the others.
fn raise_wrapping(value: i64, by: i32) -> i64 {
    match by {
        1 | 2 | 3 | 6 | 9 => value.wrapping_mul(10i64.pow(by.unsigned_abs())),
        _ => raise(value, by).unwrap_or_default(),
    }
}

/// `value ÷ 10^by` away from zero, and whether it is exact.
fn lower(value: i64, by: i32) -> (i64, bool) {
    match 10i64.checked_pow(by.unsigned_abs()) {
        None => (value.signum(), value == 0),
        Some(divisor) => {
            let (quotient, remainder) = (value / divisor, value % divisor);
            if remainder == 0 { (quotient, true) } else { (quotient + value.signum(), false) }
        }
    }
}

fn power_of_ten(exponent: i32) -> BigInt {
    BigInt::from(10).pow(i64::from(exponent).clamp(0, MAX_RESCALE) as u32)
}

/// The low 64 bits, as Go's conversion takes them.
fn wrapped(value: &BigInt) -> i64 {
    let low = value.iter_u64_digits().next().unwrap_or_default();
    let magnitude = low as i64;
    if value.sign() == Sign::Minus { magnitude.wrapping_neg() } else { magnitude }
}
