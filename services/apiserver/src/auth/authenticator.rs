//! Which credential counts.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use trireme_machinery::status::Status;

use super::certificate::CertificateAuthority;
use super::front_proxy::FrontProxy;
use super::token_file::TokenFile;
use super::user::{ANONYMOUS, AUTHENTICATED, UserInfo};
use crate::tokens::ServiceAccountTokens;

/// A token that nobody knows, or that is not for who asks.
const INVALID: &str = "invalid bearer token";

/// What a request shows of itself, whichever door it came through.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The peer's certificate chain, leaf first; the TLS layer has checked that it holds the leaf's key.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// Names and values of the headers a front proxy may have set; may be all headers.
    pub headers: Vec<(String, String)>,
}

impl std::fmt::Debug for Credentials {
    /// What there is, without what is secret in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Credentials")
            .field("certificates", &self.certificates.len())
            .field("authorization", &self.authorization.is_some())
            .field("headers", &names)
            .finish()
    }
}

impl Credentials {
    /// The token: what stands after one space, up to the next.
    fn bearer(&self) -> Option<&str> {
        let mut words = self.authorization.as_deref()?.trim().split(' ');
        let (scheme, token) = (words.next()?, words.next()?);
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    }
}

/// A proven identity.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// Who it is.
    pub user: UserInfo,
    /// The audiences of the token that agree with ours; empty without a token.
    pub audiences: Vec<String>,
}

/// Judges credentials in upstream's order: front proxy, certificate, static token, service account, anonymous.
#[derive(Clone, Default)]
pub struct Authenticator {
    /// Front proxies, if configured.
    pub front_proxy: Option<Arc<FrontProxy>>,
    /// The CA of client certificates, if configured.
    pub certificates: Option<CertificateAuthority>,
    /// Static tokens.
    pub tokens: Arc<TokenFile>,
    /// The API server's own audiences: those of a token that names none.
    pub audiences: Vec<String>,
    /// Service account tokens, if keys are configured.
    pub service_accounts: Option<Arc<ServiceAccountTokens>>,
    /// Whether callers without credentials are `system:anonymous`.
    pub anonymous: bool,
}

impl Authenticator {
    /// Whether a request's header of this name, in lower case, has to come with its [`Credentials`].
    #[must_use]
    pub fn reads(&self, header: &str) -> bool {
        header.starts_with("impersonate-") || self.front_proxy.as_ref().is_some_and(|proxy| proxy.reads(header))
    }

    /// The user of a request. Everything that was presented and proved nothing is a 401 without detail; the detail is logged.
    pub fn authenticate(&self, credentials: &Credentials) -> Result<UserInfo, Status> {
        if let Some(proxy) = &self.front_proxy
            && let Some(user) = proxy.authenticate(&credentials.certificates, &credentials.headers)
        {
            return Ok(authenticated(user));
        }
        let mut refused = None;
        if let Some(authority) = &self.certificates
            && !credentials.certificates.is_empty()
        {
            match authority.authenticate(&credentials.certificates) {
                Ok(user) => return Ok(authenticated(user)),
                Err(why) => refused = Some(why),
            }
        }
        if let Some(token) = credentials.bearer() {
            match self.token(token, &[]) {
                Ok(proven) => return Ok(authenticated(proven.user)),
                Err(why) => refused = Some(why),
            }
        }
        match refused {
            None if self.anonymous => Ok(UserInfo::anonymous()),
            None => Err(Status::unauthorized("Unauthorized")),
            Some(why) => {
                tracing::debug!(%why, "credentials refused");
                Err(Status::unauthorized("Unauthorized"))
            }
        }
    }

    /// The user of a bearer token for these audiences (none means the API server's own).
    pub fn token(&self, token: &str, audiences: &[String]) -> Result<Authenticated, String> {
        if let Some(user) = self.tokens.user(token) {
            return agnostic(user, audiences, &self.audiences);
        }
        match &self.service_accounts {
            Some(tokens) => tokens.authenticate(token, audiences),
            None => Err(INVALID.into()),
        }
    }
}

/// A user whose credential knows no audiences: it counts for our own, and for nobody else.
fn agnostic(user: UserInfo, wanted: &[String], own: &[String]) -> Result<Authenticated, String> {
    if wanted.is_empty() {
        return Ok(Authenticated { user, audiences: own.to_vec() });
    }
    let audiences: Vec<String> = wanted.iter().filter(|audience| own.contains(audience)).cloned().collect();
    if audiences.is_empty() { Err(INVALID.into()) } else { Ok(Authenticated { user, audiences }) }
}

/// Adds the group that every proven user has.
fn authenticated(mut user: UserInfo) -> UserInfo {
    if user.name != ANONYMOUS {
        user.ensure_group(AUTHENTICATED);
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(authorization: &str) -> Credentials {
        Credentials { authorization: Some(authorization.to_owned()), ..Credentials::default() }
    }

    #[test]
    fn only_absent_credentials_are_anonymous() {
        let authenticator = Authenticator { anonymous: true, ..Authenticator::default() };
        assert_eq!(authenticator.authenticate(&Credentials::default()).unwrap(), UserInfo::anonymous());
        assert_eq!(authenticator.authenticate(&with("Basic YTpi")).unwrap(), UserInfo::anonymous());
        assert_eq!(authenticator.authenticate(&with("Bearer nope")).unwrap_err().code(), 401);
    }

    #[test]
    fn a_token_without_audiences_counts_for_our_own_only() {
        let tokens = Arc::new(TokenFile::parse("t,admin,1").unwrap());
        let audiences = vec!["https://kubernetes.default.svc".to_owned(), "api".to_owned()];
        let authenticator = Authenticator { tokens, audiences: audiences.clone(), ..Authenticator::default() };
        let ask = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|audience| (*audience).to_owned()).collect();
            authenticator.token("t", &wanted).map(|proven| proven.audiences)
        };
        assert_eq!(ask(&[]).unwrap(), audiences);
        assert_eq!(ask(&["vault", "api"]).unwrap(), ["api"]);
        assert_eq!(ask(&["vault"]).unwrap_err(), "invalid bearer token");
        assert!(authenticator.authenticate(&with("Bearer t")).is_ok());
    }

    #[test]
    fn credentials_show_no_secrets() {
        let headers = vec![("X-Remote-User".to_owned(), "hidden-too".to_owned())];
        let shown = format!("{:?}", Credentials { headers, ..with("Bearer hidden") });
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
