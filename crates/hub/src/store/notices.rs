//! Where notices go: the browsers of users, webhooks, and the key for push services.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError, UserId, name_taken};
use crate::auth::UserRole;

/// The number of a push subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubscriptionId(pub i64);

/// Which notices a recipient wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticeChoice {
    /// Those about runs that wait for a person.
    pub waits: bool,
    /// Those about runs that have ended.
    pub ends: bool,
}

/// A browser that receives notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushSubscription {
    /// The number of the subscription.
    pub id: SubscriptionId,
    /// The name of its user.
    pub user: String,
    /// The role of its user.
    pub role: UserRole,
    /// The URL at the push service.
    pub endpoint: String,
    /// The public key of the browser, uncompressed.
    pub p256dh: Vec<u8>,
    /// The secret that the browser shares with the hub.
    pub auth: Vec<u8>,
    /// Which notices it receives.
    pub choice: NoticeChoice,
    /// The creation time in seconds since 1970.
    pub created: i64,
}

/// A subscription to store.
#[derive(Debug, Clone, Copy)]
pub struct NewSubscription<'a> {
    /// The user of the browser.
    pub user: UserId,
    /// The URL at the push service.
    pub endpoint: &'a str,
    /// The public key of the browser, uncompressed.
    pub p256dh: &'a [u8],
    /// The secret that the browser shares with the hub.
    pub auth: &'a [u8],
    /// Which notices it receives.
    pub choice: NoticeChoice,
    /// The current time in seconds since 1970.
    pub now: i64,
}

/// The form of the messages to a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookForm {
    /// The notice as JSON.
    Json,
    /// A message to a topic of ntfy.
    Ntfy,
    /// A message to an incoming webhook of Slack.
    Slack,
    /// A message of a bot of Telegram to a chat.
    Telegram,
}

impl WebhookForm {
    const ALL: [WebhookForm; 4] =
        [WebhookForm::Json, WebhookForm::Ntfy, WebhookForm::Slack, WebhookForm::Telegram];

    /// The name in the database and in the API.
    pub fn word(self) -> &'static str {
        match self {
            WebhookForm::Json => "json",
            WebhookForm::Ntfy => "ntfy",
            WebhookForm::Slack => "slack",
            WebhookForm::Telegram => "telegram",
        }
    }
}

/// A server that receives notices.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The unique name.
    pub name: String,
    /// The form of its messages.
    pub form: WebhookForm,
    /// The URL, which may contain a secret.
    pub url: String,
    /// The chat of Telegram.
    pub chat_id: Option<String>,
    /// A token for the header `Authorization`.
    pub token: Option<String>,
    /// Which notices it receives.
    pub choice: NoticeChoice,
    /// The creation time in seconds since 1970.
    pub created: i64,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Webhook({:?})", self.name)
    }
}

impl Store {
    /// The private key for push services: the stored one, or `new` if there is none yet.
    pub async fn push_key(&self, new: &[u8]) -> Result<Vec<u8>, StoreError> {
        let select = "SELECT private FROM push_key WHERE id = 1";
        if let Some(row) = sqlx::query(select).fetch_optional(&self.read).await? {
            return Ok(row.try_get("private")?);
        }
        let insert = sqlx::query("INSERT INTO push_key (id, private) VALUES (1, $1) ON CONFLICT DO NOTHING");
        insert.bind(new).execute(&self.write).await?;
        Ok(sqlx::query(select).fetch_one(&self.write).await?.try_get("private")?)
    }

    /// Stores a subscription, or updates the one with this endpoint. `None` if the user has `limit` others.
    pub async fn add_subscription(
        &self,
        new: NewSubscription<'_>,
        limit: i64,
    ) -> Result<Option<SubscriptionId>, StoreError> {
        let row = sqlx::query(
            "INSERT INTO push_subscriptions (user_id, endpoint, p256dh, auth, waits, ends, created) \
             SELECT $1, $2, $3, $4, $5, $6, $7 \
             WHERE (SELECT COUNT(*) FROM push_subscriptions WHERE user_id = $1 AND endpoint <> $2) < $8 \
             ON CONFLICT (endpoint) DO UPDATE SET user_id = $1, p256dh = $3, auth = $4, waits = $5, ends = $6 \
             RETURNING id",
        )
        .bind(new.user.0)
        .bind(new.endpoint)
        .bind(new.p256dh)
        .bind(new.auth)
        .bind(i64::from(new.choice.waits))
        .bind(i64::from(new.choice.ends))
        .bind(new.now)
        .bind(limit)
        .fetch_optional(&self.write)
        .await?;
        row.map(|row| Ok(SubscriptionId(row.try_get("id")?))).transpose()
    }

    /// The subscriptions of one user or of all.
    pub async fn subscriptions(&self, user: Option<UserId>) -> Result<Vec<PushSubscription>, StoreError> {
        let rows = sqlx::query(
            "SELECT s.*, u.name, u.role FROM push_subscriptions s JOIN users u ON u.id = s.user_id \
             WHERE $1 = 0 OR s.user_id = $1 ORDER BY s.id",
        );
        let rows = rows.bind(user.map_or(0, |user| user.0)).fetch_all(&self.read).await?;
        rows.iter().map(subscription).collect()
    }

    /// Removes a subscription, of this user or of any. False if there is none.
    pub async fn remove_subscription(
        &self,
        id: SubscriptionId,
        user: Option<UserId>,
    ) -> Result<bool, StoreError> {
        let removed =
            sqlx::query("DELETE FROM push_subscriptions WHERE id = $1 AND ($2 = 0 OR user_id = $2)");
        let removed = removed.bind(id.0).bind(user.map_or(0, |user| user.0)).execute(&self.write).await?;
        Ok(removed.rows_affected() > 0)
    }

    /// Stores a webhook under its unique name.
    pub async fn add_webhook(&self, new: &Webhook) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO webhooks (name, form, url, chat_id, token, waits, ends, created) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(&new.name)
        .bind(new.form.word())
        .bind(&new.url)
        .bind(&new.chat_id)
        .bind(&new.token)
        .bind(i64::from(new.choice.waits))
        .bind(i64::from(new.choice.ends))
        .bind(new.created)
        .execute(&self.write)
        .await
        .map_err(|error| name_taken(error, "webhook", &new.name))?;
        Ok(())
    }

    /// The webhooks by name.
    pub async fn webhooks(&self) -> Result<Vec<Webhook>, StoreError> {
        let rows = sqlx::query("SELECT * FROM webhooks ORDER BY name");
        rows.fetch_all(&self.read).await?.iter().map(webhook).collect()
    }

    /// Removes a webhook. False if there is none.
    pub async fn remove_webhook(&self, name: &str) -> Result<bool, StoreError> {
        let removed = sqlx::query("DELETE FROM webhooks WHERE name = $1").bind(name);
        Ok(removed.execute(&self.write).await?.rows_affected() > 0)
    }
}

fn choice(row: &AnyRow) -> Result<NoticeChoice, StoreError> {
    Ok(NoticeChoice {
        waits: row.try_get::<i64, _>("waits")? != 0,
        ends: row.try_get::<i64, _>("ends")? != 0,
    })
}

fn subscription(row: &AnyRow) -> Result<PushSubscription, StoreError> {
    Ok(PushSubscription {
        id: SubscriptionId(row.try_get("id")?),
        user: row.try_get("name")?,
        role: UserRole::stored(row.try_get("role")?)?,
        endpoint: row.try_get("endpoint")?,
        p256dh: row.try_get("p256dh")?,
        auth: row.try_get("auth")?,
        choice: choice(row)?,
        created: row.try_get("created")?,
    })
}

fn webhook(row: &AnyRow) -> Result<Webhook, StoreError> {
    let form: String = row.try_get("form")?;
    let known = WebhookForm::ALL.into_iter().find(|known| known.word() == form);
    Ok(Webhook {
        name: row.try_get("name")?,
        form: known.ok_or(StoreError::UnknownValue { column: "form of webhook", value: form })?,
        url: row.try_get("url")?,
        chat_id: row.try_get("chat_id")?,
        token: row.try_get("token")?,
        choice: choice(row)?,
        created: row.try_get("created")?,
    })
}
