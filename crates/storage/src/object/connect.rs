//! Makes a client for each service from its URL and its usual environment variables.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

use super::aws_profile;
use super::location::{RemoteLocation, Service};
use super::lock::Locker;
use super::transport::Transport;
use crate::error::{StorageError, StorageErrorKind};
use crate::limit::Limiter;
use crate::options::{Lock, TlsOptions};

/// Makes the client, and what locks objects if the service can do that; no request is sent yet.
pub fn connect(
    location: &RemoteLocation,
    upload: Option<Arc<Limiter>>,
    tls: &TlsOptions,
    lock: Option<Lock>,
) -> Result<(Arc<dyn ObjectStore>, Option<Locker>), StorageError> {
    if lock.is_some() && location.service != Service::S3 {
        let text = "only S3, and what imitates it, locks objects";
        return Err(StorageError::new(StorageErrorKind::Unsupported, text));
    }
    let mut locker = None;
    // Callers retry, with new signatures and for longer.
    let retry = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 0,
        retry_timeout: Default::default(),
    };
    let bucket = location.bucket.as_str();
    let transport = |login| Transport::new(location.service, upload.clone(), login, tls);
    let built: object_store::Result<Arc<dyn ObjectStore>> = match location.service {
        Service::S3 => {
            let mut builder = with_profile(AmazonS3Builder::from_env())?;
            if let Some(endpoint) = &location.endpoint {
                // Sets both keys, since the environment may have set either.
                for key in [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint] {
                    builder = builder.with_config(key, endpoint);
                }
            }
            // One for both: few connections may be all that there are.
            let transport = transport(None)?;
            let builder = builder
                .with_bucket_name(bucket)
                // Not all services like S3 can delete in bulk.
                .with_disable_bulk_delete(true)
                .with_retry(retry)
                .with_http_connector(transport.clone());
            builder.build().map(|store| {
                let store = Arc::new(store);
                locker = Some(Locker::new(Arc::clone(&store), transport, lock));
                store as _
            })
        }
        Service::GoogleCloud => {
            let builder = GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(bucket)
                .with_retry(retry)
                .with_http_connector(transport(None)?);
            builder.build().map(|store| Arc::new(store) as _)
        }
        Service::Azure => {
            let builder = MicrosoftAzureBuilder::from_env()
                .with_container_name(bucket)
                .with_retry(retry)
                .with_http_connector(transport(None)?);
            builder.build().map(|store| Arc::new(store) as _)
        }
        Service::WebDav => {
            let variable = |name| std::env::var(name).ok();
            let name = variable("WEBDAV_USERNAME");
            let login = name.map(|name| (name, variable("WEBDAV_PASSWORD").unwrap_or_default()));
            let builder = HttpBuilder::new()
                .with_url(location.endpoint.clone().unwrap_or_default())
                .with_retry(retry)
                .with_http_connector(transport(login)?);
            builder.build().map(|store| Arc::new(store) as _)
        }
    };
    built.map(|store| (store, locker)).map_err(|error| {
        let first = super::first_cause(&error);
        let text = format!("{first}: set {}", location.service.credentials());
        StorageError::new(StorageErrorKind::Permanent, text)
    })
}

/// Adds settings of the files of Amazon's tools that the environment lacks.
fn with_profile(mut builder: AmazonS3Builder) -> Result<AmazonS3Builder, StorageError> {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let sources = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_SKIP_SIGNATURE",
    ];
    if sources.into_iter().any(is_set) {
        return Ok(builder);
    }
    let has_region = is_set("AWS_REGION") || is_set("AWS_DEFAULT_REGION");
    let profile = aws_profile::read()?;
    if let Some((id, secret)) = profile.keys {
        builder = builder
            .with_access_key_id(id)
            .with_secret_access_key(secret);
        if let Some(token) = profile.token {
            builder = builder.with_token(token);
        }
    }
    match profile.region {
        Some(region) if !has_region => Ok(builder.with_region(region)),
        _ => Ok(builder),
    }
}
