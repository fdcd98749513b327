import LanyardFoundations
import LanyardSettings

/// Why a proxy has opened no tunnel to the upstream, or cannot be used. Each case is a `Proxy-Status` error (RFC 9209 §2.3).
package enum ProxyError: Equatable, Sendable {
    case nameNotFound
    case nameTimedOut
    /// The value is `errno`.
    case notConnected(CInt)
    case connectTimedOut
    /// The response to CONNECT has this status, which is not 2xx.
    case refused(status: Int)
    /// 407. False: no credential was sent.
    case loginRequired(hasSentCredential: Bool)
    /// The bytes are no response of HTTP, or one that is too long.
    case invalid(HeadError)
    /// It has ended the connection before its response was complete.
    case closed
    /// It has sent no complete response in time.
    case responseTimedOut
    /// Its `credentials_file` cannot be used: it is not asked without a credential.
    case credentialUnavailable
    /// As the cases of `UpstreamError`, of the proxy's addresses.
    case forbiddenAddress, plainBeyondLoopback

    /// The proxy itself has been reached: this says more than that another address has not responded.
    var isOfResponse: Bool {
        switch self {
        case .refused, .loginRequired, .invalid, .closed: true
        case .nameNotFound, .nameTimedOut, .notConnected, .connectTimedOut, .responseTimedOut, .credentialUnavailable,
            .forbiddenAddress, .plainBeyondLoopback:
            false
        }
    }
}

/// The exchange of CONNECT with a proxy, by which a connection to it becomes one to the upstream (RFC 9110 §9.3.6).
///
/// It does no I/O: the bytes of the proxy come in, and a verdict comes out. What stands behind the head of a 2xx belongs to TLS, so the
/// caller takes no more bytes from the socket than the verdict says.
struct ProxyTunnel {
    enum Verdict: Equatable {
        /// All of the bytes were of the head, or of an interim response.
        case incomplete
        /// This many of the bytes belong to the response. The upstream's follow.
        case open(count: Int)
        case failed(ProxyError)
    }

    /// Bytes of all heads. A proxy's pages about refusals stand behind its head, and are not read.
    static let bytesMax = 16 << 10
    private static let limits = HeadLimits(
        startLineBytesMax: 8 << 10, fieldLineBytesMax: bytesMax, sectionBytesMax: bytesMax, fieldsMax: 128)

    /// The head of CONNECT.
    let request: Secret
    private let hasCredential: Bool
    private var reader = ResponseReader()
    private let table = FieldTable(capacity: limits.fieldsMax)
    /// The present head as far as it has come.
    private var bytes: [UInt8] = []
    /// Bytes of interim responses before it.
    private var readBytes = 0

    /// - Parameters:
    ///   - host: of the upstream, v6 without brackets.
    ///   - authorization: the value of `Proxy-Authorization`; nil: none is sent.
    init(to host: String, port: UInt16, authorization: Secret?) {
        let isV6 = host.utf8.contains(UInt8(ascii: ":"))
        let authority = isV6 ? "[\(host)]:\(port)" : "\(host):\(port)"
        var head = SecretBuffer()
        head.append("CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n")
        if let authorization {
            head.append("Proxy-Authorization: ")
            authorization.withBytes { head.append($0) }
            head.append("\r\n")
        }
        head.append("\r\n")
        request = head.seal()
        hasCredential = authorization != nil
    }

    /// Reads what the proxy has sent next. Not after a verdict other than `incomplete`.
    mutating func receive(_ arrived: UnsafeRawBufferPointer) -> Verdict {
        var start = 0
        while start < arrived.count {
            // No more than a head may have: a flood is not copied.
            let part = arrived[start..<min(arrived.count, start + Self.bytesMax + 1 - bytes.count)]
            let known = bytes.count
            bytes.append(contentsOf: part)
            do throws(HeadError) {
                guard let head = try readHead() else {
                    guard readBytes + bytes.count <= Self.bytesMax else { return .failed(.invalid(Self.tooLong)) }
                    return .incomplete
                }
                start += head.length - known
                guard head.isInterim else { return verdict(on: head.status, count: start) }
                readBytes += head.length
                guard readBytes <= Self.bytesMax else { return .failed(.invalid(Self.tooLong)) }
                (reader, bytes) = (ResponseReader(), [])
            } catch {
                return .failed(.invalid(error))
            }
        }
        return .incomplete
    }

    private static let tooLong = HeadError(.fieldsTooLarge, "the response to CONNECT is too long")

    /// The body of the response, if it has one, is not read: that of a 2xx is the tunnel, and another one ends the connection.
    private mutating func readHead() throws(HeadError) -> ResponseHead? {
        // Out of the value, since a closure may not change two parts of it.
        var reader = self.reader
        defer { self.reader = reader }
        return try bytes.withUnsafeBufferPointer { bytes throws(HeadError) in
            try reader.read(bytes, into: table, isResponseToHead: true, limits: Self.limits)
        }
    }

    private func verdict(on status: Int, count: Int) -> Verdict {
        switch status {
        case 200..<300: .open(count: count)
        case 407: .failed(.loginRequired(hasSentCredential: hasCredential))
        default: .failed(.refused(status: status))
        }
    }
}

/// The credential that new connections of one shard to one upstream show its proxy. Belongs to the shard's queue, which `UpstreamPool`
/// and `Connector` check.
final class ShardProxy {
    /// The value of `Proxy-Authorization`; nil: there is none, or it cannot be used.
    var authorization: Secret?

    init(_ authorization: Secret?) { self.authorization = authorization }
}
