/// One HTTP request to an identity service.
struct CurlRequest: Sendable {
    enum Method: Sendable { case get, post, delete }

    var method: Method
    /// Absolute, `http` or `https`. No secret is ever part of it.
    var url: String
    /// Whole field lines without CRLF. None is a secret.
    var fields: [String] = []
    /// Sent as `Authorization: Bearer …`.
    var bearer: Secret?
    /// The body of a POST; nil is an empty one.
    var body: Secret?
    /// A login: it waits behind every call of a session that lives, and never takes the last places (`CurlMulti`).
    var isLogin = false
    /// The answer must be complete by then, whatever was waited for before.
    var deadline: Instant
}
