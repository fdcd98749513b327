import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// One HTTP request to an identity service.
struct CurlRequest: Sendable {
    enum Method: Sendable { case get, post, put, delete }

    /// A field whose value may be a secret.
    struct SecretField: Sendable {
        let name: String
        let value: Secret
    }

    var method: Method
    /// Absolute, `http` or `https`. Never contains a secret.
    var url: String
    /// Whole field lines without CRLF. None is a secret.
    var fields: [String] = []
    /// Sent as `Authorization: Bearer …`.
    var bearer: Secret?
    /// Further fields whose values may be secrets: visible ASCII and blanks.
    var secretFields: [SecretField] = []
    /// The body of a POST or PUT; nil is an empty one.
    var body: Secret?
    /// Asked before the body of a POST is sent, which then is not empty; nil: the body needs no permission.
    var gate: SendGate?
    /// Ends the transfer; nil: it is always wanted.
    var cancellation: CallCancellation?
    /// What it needs a slot for. An operator's call about an account is a login: it waits behind every call of a live session and never
    /// takes the last slots (`IdentityCallQueue`).
    var kind = IdentityCallKind.session
    /// Bytes of the response's body.
    var responseBytesMax = 1 << 20
    /// Connects and completes the handshake of TLS, and sends no request.
    var onlyConnects = false
    /// Connects to this unix socket, whatever the host of `url`; nil: to the host.
    var unixSocket: String?
    /// The response must be complete so long after the transfer has begun; nil: by `deadline` alone.
    var timeout: Duration?
    /// The response must be complete by then, including all waiting.
    var deadline: Instant
}

/// A complete response of an identity service, with any status.
struct CurlResponse: Sendable {
    /// The fields that Lanyard reads; each is printable ASCII of at most 2 KiB.
    struct Fields: Sendable {
        var contentType: String?
        var retryAfter: String?
        var date: String?
        var location: String?
        /// `x-ratelimit-remaining` and `x-ratelimit-reset` of GitHub.
        var rateLimitRemaining: String?
        var rateLimitReset: String?
    }

    var status: Int
    var fields: Fields
    var body: Secret
    /// Before the connection was made; later than all waiting in Lanyard.
    var requestStartedAt: ClockReading?
    /// Of a request that only connects, whose status is 0.
    var connection: IdentityConnection?
    /// When the certificate ends that the service has shown; nil: no TLS.
    var certificateEnd: WallTime?
    /// It came before any byte of a body that was held back: it says nothing of what is in the body.
    var isEarly = false

    /// `application/json`, with any parameters: some servers add a charset.
    var isJSON: Bool {
        guard let type = fields.contentType?.lowercased(), type.hasPrefix("application/json") else { return false }
        let rest = type.dropFirst("application/json".count)
        return rest.isEmpty || rest.first == ";" || rest.first == " "
    }

    /// The body is a page in HTML or XML, as gateways and captive portals write it: no token endpoint has said what the status says.
    var isPage: Bool {
        body.withBytes { bytes in
            let content = bytes.starts(with: [0xef, 0xbb, 0xbf]) ? bytes.dropFirst(3) : bytes[...]
            return content.first { $0 != 0x20 && !(0x09...0x0d ~= $0) } == UInt8(ascii: "<")
        }
    }

    /// Ten years, in seconds.
    private static let retryAfterMax: Int64 = 315_360_000

    /// The service's clock.
    var serverDate: WallTime? { fields.date.flatMap(HTTPDate.read) }

    /// `Retry-After` (RFC 9110 §10.2.3) as seconds or a date. A date counts from the response's own `Date`, if present, because both come
    /// from the same clock. Never negative.
    func retryAfter(now: WallTime) -> Duration? {
        guard let text = fields.retryAfter else { return nil }
        if !text.isEmpty, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) {
            return .seconds(min(Int64(text) ?? .max, Self.retryAfterMax))
        }
        return HTTPDate.read(text).map { max($0 - (serverDate ?? now), .zero) }
    }
}

extension IdentityError {
    /// The same with the time that the response names, where another call follows by itself.
    func withRetryAfter(of response: CurlResponse, now: WallTime = .now) -> IdentityError {
        var error = self
        switch verdict {
        case .transient(nil): error.verdict = .transient(retryAfter: response.retryAfter(now: now))
        case .credentialDoubted: error.retryAfter = response.retryAfter(now: now)
        case .transient, .unknownOutcome, .sessionDead, .credentialRefused, .gone, .unknownApp, .credentialUnavailable,
            .credentialDelayed, .accountInUse, .clientRefused, .callRefused:
            break
        }
        return error
    }
}

/// A connection that was made to an identity service, or to the proxy before it.
package struct IdentityConnection: Equatable, Sendable {
    /// `203.0.113.5:443`.
    package let address: String
    /// When the service's certificate ends; nil: without TLS.
    package let certificateEnd: WallTime?
}

/// What the files of an identity's `tls` hold, in PEM, and that of its proxy's credential. nil: no such file is configured.
///
/// libcurl gets the contents, never a path: it would open the file on the identity's loop, where a file that hangs
/// stops every call.
package struct IdentityTLSContents: Equatable, Sendable {
    /// Replaces the system's certificate authorities.
    var authorities: Secret?
    var certificate: Secret?
    var key: Secret?
    /// The value of `Proxy-Authorization`.
    var proxyAuthorization: Secret?

    package init(
        authorities: Secret? = nil, certificate: Secret? = nil, key: Secret? = nil, proxyAuthorization: Secret? = nil
    ) {
        self.proxyAuthorization = proxyAuthorization
        self.authorities = authorities
        self.certificate = certificate
        self.key = key
    }
}

/// TLS trust, client certificate and proxy of an identity's connections.
struct CurlTrust: Equatable, Sendable {
    var tls: IdentityTLSContents
    var proxy: IdentitySettings.Proxy
    /// Restricts plain http to loopback addresses, also those of a proxy.
    var restrictsPlainHTTPToLoopback = false
}

/// Time limits of an exchange with an identity service.
package struct CurlLimits: Equatable, Sendable {
    /// Name resolution, connection and TLS handshake together.
    package var connectTimeout = Duration.seconds(5)
    /// The whole exchange: the location request, the wait for a free slot, and the transfer.
    package var totalTimeout = Duration.seconds(30)
    /// Steps of libcurl in one transfer. A step reads at most 101 times `bufferBytes`, and at least one byte; the response to CONNECT is
    /// read in steps of one byte. So this bounds the CPU time of a response that comes byte by byte.
    package var stepsMax = 1 << 16
    package init() {}

    /// libcurl's least. libcurl reads until nothing is left, or this 101 times, before anything else has its turn.
    static let bufferBytes = 1024

    /// Bytes that may come from the network, for a body of at most `bodyBytes`. Framing that makes more of it is a flood.
    static func rawBytesMax(bodyBytes: Int) -> UInt64 { UInt64(4 * bodyBytes + (256 << 10)) }

    /// The part of `totalTimeout` that must be left when a transfer starts: a request that is sent and then abandoned is worse
    /// than one never sent.
    var totalLeftMin: Duration { min(connectTimeout, totalTimeout / 2) }
}
