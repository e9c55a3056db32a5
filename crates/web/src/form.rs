//! What forms send.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use maud::{Markup, html};

use crate::access::Session;
use crate::answer::Failure;
use crate::app::App;
use crate::encoding::Fields;

/// Bytes of a form.
const FORM_LEN_MAX: usize = 64 << 10;

/// Time for a form to come.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);

/// Name of the field that says which session a form was made for.
const TOKEN: &str = "form-token";

/// The fields of a form of the session that sends it.
pub struct Sent(pub Fields);

impl FromRequest<Arc<App>> for Sent {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, Failure> {
        let session = request.extensions().get::<Session>().cloned();
        let session = session.ok_or_else(|| Failure::forbidden("log in first"))?;
        let fields = read(request.into_body()).await?;
        if fields.text(TOKEN) != session.form_token {
            let text = "the form is of another session: load the page again and repeat it";
            return Err(Failure::forbidden(text));
        }
        Ok(Self(fields))
    }
}

/// The fields of a form in the body of a request.
///
/// # Errors
/// When it does not come whole in time, or is too long.
pub async fn read(body: Body) -> Result<Fields, Failure> {
    let bytes = read_bytes(body).await?;
    Ok(Fields::parse(&String::from_utf8_lossy(&bytes)))
}

/// The body of a request.
///
/// # Errors
/// As [`read`].
pub async fn read_bytes(body: Body) -> Result<Bytes, Failure> {
    let bytes = tabane_http::collect(body, FORM_LEN_MAX, FORM_TIMEOUT).await;
    bytes.map_err(|_| Failure::wrong("the request did not come whole in time, or is too long"))
}

/// The field that every form of a session has.
pub fn token(session: &Session) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(session.form_token); }
}
