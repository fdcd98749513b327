/// The members of an App Services response that Lanyard uses, for any status (appservices.md 2.3, appservices.md 3.1, appservices.md 5.2).
package struct TokenResponse: Sendable {
    /// b64token characters only (RFC 6750 §2.1).
    package var accessToken: Secret?
    /// b64token characters only.
    package var refreshToken: Secret?
    package var userID: String?
    package var deviceID: String?
    /// Seconds, as some servers send them.
    package var expiresIn: Int64?
    /// The service's origin, in the response to a location request.
    package var hostname: String?
    /// There is an `error` that is text, or an `error_code`. The text itself is not kept, because it may quote the request.
    package var hasError = false
    /// The `error` says that no such app exists. Only this text must be recognised, because it comes without a code.
    package var isUnknownApp = false
    /// Scrubbed: `[A-Za-z0-9_]{1,64}`.
    package var errorCode: String?
}
