/// One HTTP request to an identity service.
struct CurlRequest: Sendable {
    enum Method: Sendable { case get, post, delete }

    var method: Method
    /// Absolute, `http` or `https`. Never contains a secret.
    var url: String
    /// Whole field lines without CRLF. None is a secret.
    var fields: [String] = []
    /// Sent as `Authorization: Bearer …`.
    var bearer: Secret?
    /// The body of a POST; nil is an empty one.
    var body: Secret?
    /// A login waits behind every call of a live session and never takes the last slots (`CurlMulti`).
    var isLogin = false
    /// The response must be complete by then, including all waiting.
    var deadline: Instant
}
