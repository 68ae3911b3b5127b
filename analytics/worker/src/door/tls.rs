//! The door's TLS: version 1.3 alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use crate::door::kept::{read, Kept};

/// TLS certificate and key, which are read again when a file has changed.
pub struct Identity(Kept<TlsAcceptor>);

impl Identity {
    /// Reads both files.
    ///
    /// # Errors
    /// Files that cannot be read, or do not belong together.
    pub fn open(certificates: PathBuf, key: PathBuf) -> Result<Identity, String> {
        let paths = vec![certificates.clone(), key.clone()];
        Ok(Identity(Kept::new(paths, move || acceptor(&certificates, &key))?))
    }

    /// For the next connection.
    ///
    /// # Errors
    /// Those of reading files that have changed.
    pub fn now(&self) -> Result<TlsAcceptor, String> {
        Ok(self.0.now()?.as_ref().clone())
    }
}

fn acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let text = |path: &Path| read(path, |_| Ok(()))?.ok_or_else(|| format!("{} is not there", path.display()));
    // Errors do not quote: the key could be in the wrong file.
    let chain = CertificateDer::pem_slice_iter(&text(certificates)?).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|_| format!("{} has no TLS certificate in PEM", certificates.display()))?;
    let own = PrivateKeyDer::from_pem_slice(&text(key)?)
        .map_err(|_| format!("{} has no private key in PEM", key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, own))
        .map_err(|error| format!("{}, {}: {error}", certificates.display(), key.display()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
