// Which fields end at this hop, and what Lanyard writes in their place. A field ends here by its name (`isHopByHop`) or
// because `Connection` names it (`ConnectionOptions.nominates`). What `Connection` and `TE` ask for and this hop takes
// over stands in `HeadSink.writeOptions`.

extension FieldName {
    /// The field belongs to one connection and is never forwarded (RFC 9110 §7.6.1, http-forwarding.md 10.1).
    package var isHopByHop: Bool {
        switch self {
        case .connection, .transferEncoding, .keepAlive, .proxyConnection, .te, .upgrade, .proxyAuthenticate,
            .proxyAuthorization, .http2Settings:
            true
        default: false
        }
    }

    /// A line of a client's head may be copied to the upstream's.
    ///
    /// Besides hop-by-hop fields these are not copied:
    /// - `Host` and `Content-Length`: Lanyard writes them from the route and the framing (http-requests.md 4.3, 5.7).
    /// - `Trailer`: trailers of requests are dropped (http-requests.md 6.4).
    var isCopiedInRequests: Bool {
        switch self {
        case .host, .contentLength, .trailer: false
        default: !isHopByHop
        }
    }

    /// A line of an upstream's head may be copied to the client's.
    ///
    /// - Parameters:
    ///   - status: 426 keeps `Upgrade`, which tells the client what to ask for (RFC 9110 §15.5.22, http-forwarding.md 12.5).
    ///   - keepsLength: the response has no body, and its `Content-Length` describes the one that is not sent.
    ///   - keepsTrailer: trailers are relayed, so `Trailer` may announce them (http-requests.md 6.5).
    func isCopiedInResponses(status: Int, keepsLength: Bool, keepsTrailer: Bool) -> Bool {
        switch self {
        case .contentLength: keepsLength
        case .trailer: keepsTrailer
        case .upgrade: status == 426
        default: !isHopByHop
        }
    }

    /// `Connection` cannot remove this field from a response (http-forwarding.md 10.2): a message's length is no option of a
    /// connection, and `Upgrade` of a 426 must be named in `Connection` (RFC 9110 §7.8).
    var ignoresNomination: Bool { self == .contentLength || self == .upgrade }

    /// A look-alike of one of these fields is refused (http-forwarding.md 10.4): framing, routing, hop-by-hop.
    package var refusesConfusableNames: Bool {
        isHopByHop || self == .host || self == .contentLength || self == .trailer
    }
}

/// The options of all `Connection` fields of a head together (RFC 9110 §7.6.1, http-connections.md 9.1, http-forwarding.md 10.1).
package struct ConnectionOptions: Equatable, Sendable {
    package var hasClose = false
    package var hasKeepAlive = false
    package var hasUpgrade = false
    /// `Connection` names `TE`, so `TE: trailers` is valid.
    package var hasTE = false
    /// The lengths of all other members: names of fields that must not be forwarded.
    private(set) var nominatedLengths = NameLengths()

    /// A member is the name of a field that must not be forwarded.
    package var nominatesFields: Bool { !nominatedLengths.isEmpty }

    package init() {}

    mutating func add(_ value: Bytes) throws(HeadError) {
        for member in FieldList(value) {
            guard member.allSatisfy(ByteClass.isToken) else {
                throw .malformed("a Connection option that is not a token")
            }
            if member.equals(lowered: "close") {
                // It also names a field `Close`.
                hasClose = true
                nominatedLengths.insert(member.count)
            } else if member.equals(lowered: "keep-alive") {
                hasKeepAlive = true
            } else if member.equals(lowered: "upgrade") {
                hasUpgrade = true
            } else if member.equals(lowered: "te") {
                hasTE = true
            } else {
                nominatedLengths.insert(member.count)
            }
        }
    }

    /// Whether `Connection` names this field in the head with these options. Most heads name none of this length, which is one test.
    @inline(__always)
    func nominates(_ name: Bytes, _ lines: FieldLines, in head: Bytes) -> Bool {
        nominatedLengths.contains(name.count) && Self.nominates(name, lines, in: head)
    }

    /// Whether a `Connection` field of the head, or of a trailer section behind its head's `Connection` lines, names this
    /// field.
    package static func nominates(_ name: Bytes, _ lines: FieldLines, in head: Bytes) -> Bool {
        for index in 0..<lines.count where lines[index].name == .connection {
            for member in FieldList(lines.value(index, in: head)) where member.equalsIgnoringCase(name) { return true }
        }
        return false
    }

    /// The whole `Connection` line of a response that Lanyard sends to a client; empty if the client needs none.
    ///
    /// A connection persists by default in HTTP/1.1, and in HTTP/1.0 only if the response says so (http-connections.md 9.1, 9.2).
    package static func responseLine(closes: Bool, clientMinorVersion: Int) -> StaticString {
        if closes { return "Connection: close\r\n" }
        return clientMinorVersion == 0 ? "Connection: keep-alive\r\n" : ""
    }
}
