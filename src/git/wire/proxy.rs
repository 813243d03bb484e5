//! By which proxy an http server is reached, if by any.

use hyper::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use super::super::access::Proxy;

/// The proxy for `target`. The environment is asked at every call: it is read in microseconds.
pub(super) fn proxy_for(proxy: &Proxy, target: &Uri) -> Result<Option<Intercept>, String> {
    let intercept = match proxy {
        Proxy::Direct => None,
        Proxy::Environment => Matcher::from_env().intercept(target),
        Proxy::Through { url, shown } => {
            let through = Matcher::builder().all(url.expose().to_owned()).build().intercept(target);
            Some(through.ok_or_else(|| format!("{shown} is no address of a proxy"))?)
        }
    };
    match intercept.as_ref().and_then(|intercept| intercept.uri().scheme_str()) {
        None | Some("http") => Ok(intercept),
        Some(scheme) => Err(format!("proxies of the kind {scheme} are not supported, only http")),
    }
}

/// Host and port, for people.
pub(super) fn name(intercept: &Intercept) -> String {
    intercept.uri().authority().map_or_else(String::new, |authority| {
        // What is in front of the host is taken off by the matcher already.
        authority.as_str().rsplit('@').next().unwrap_or_default().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::access::Secret;

    fn through(url: &str) -> Result<Option<Intercept>, String> {
        let proxy = Proxy::Through { url: Secret::new(url), shown: "the proxy".to_owned() };
        proxy_for(&proxy, &Uri::from_static("https://git.example/shop.git"))
    }

    #[test]
    fn a_proxy_keeps_its_password_out_of_its_name() {
        let proxy = through("http://ann:s3cret@proxy.example:3128").unwrap().unwrap();
        assert_eq!(name(&proxy), "proxy.example:3128");
        assert!(proxy.basic_auth().is_some());
        assert!(!format!("{proxy:?}").contains("s3cret"));
    }

    #[test]
    fn only_http_proxies_are_spoken_to() {
        assert!(through("socks5://proxy.example:1080").is_err_and(|why| why.contains("socks5")));
        let direct = proxy_for(&Proxy::Direct, &Uri::from_static("https://git.example/"));
        assert!(direct.is_ok_and(|proxy| proxy.is_none()));
    }
}
