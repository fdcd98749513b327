import LanyardFoundations
import LanyardSettings

/// Writes the request for the upstream from its parsed form (http-requests.md 7.1, http-forwarding.md 10.2, 18.1). The order: `Host`, the
/// client's fields without those that are not forwarded, the added fields, the injected field.
///
/// Objects and arrays are arguments: to hold them would count references.
package struct RequestHeadWriter: ~Copyable {
    let bytes: Bytes
    let head: RequestHead
    let lines: FieldLines
    let target: RequestTarget
    /// The client is reached by TLS.
    let isClientTLS: Bool

    /// - Parameters:
    ///   - token: the access token.
    ///   - authority: the upstream's own `Host`.
    ///   - requestID: Lanyard's own id, if the route sends one and the client has none.
    ///   - upgrade: the protocol of an upgrade; nil: an ordinary request.
    ///   - peer: the client's address, for `forwarded: append`; else nil.
    ///   - values: of the route's fields whose values files hold, in their order. Each has one.
    /// - Returns: whether the token was written. With `client_authorization: pass` a client's own field is sent
    ///   instead.
    func write(
        into out: inout some HeadSink & ~Copyable, on route: Route, in context: HeadContext, token: AccessToken,
        authority: [UInt8], requestID: RequestID, upgrade: [UInt8]?, peer: ForwardedPeer?, values: [FieldValue] = []
    ) -> Bool {
        writeStart(&out, authority, on: route, in: context)
        let clientSentOwn = writeFields(&out, authority, on: route, in: context, appendsPeer: peer != nil)
        writeFraming(&out)
        out.writeOptions(wantsTrailers: head.wantsTrailers, upgrade: upgrade)
        if !head.traits.contains(.via) { writeVia(&out, in: context, after: nil) }
        if let peer { peer.write(into: &out) }
        for field in route.fixedFields {
            out.beginField(field.start)
            if let place = field.filePlace, let secret = values[place].secret { out.write(secret) }
            out.endField()
        }
        if let name = route.requestIDName {
            name.withUnsafeBufferPointer { out.beginField($0) }
            if let id = RequestIDField.safe(on: route, head, lines, in: bytes) {
                out.write(id)
            } else {
                out.write(hex: requestID.number)
            }
            out.endField()
        }
        if !clientSentOwn { route.bearerField.write(token.token, into: &out) }
        out.endHead()
        return !clientSentOwn
    }

    private func writeStart<Sink: HeadSink & ~Copyable>(
        _ out: inout Sink, _ authority: [UInt8], on route: Route, in context: HeadContext
    ) {
        if Sink.copiesLines, route.keepsTarget, target.form == .origin {
            // Method, space and target as the client has sent them.
            out.write(bytes[run: head.method.lowerBound..<head.target.upperBound])
        } else if let start = route.absoluteStart {
            return writeStartForProxy(&out, start, authority, on: route, in: context)
        } else {
            out.beginRequest(bytes[run: head.method])
            Self.writeTarget(target, bytes[run: head.target], on: route, into: &out)
        }
        out.beginAuthority()
        switch route.settings.host {
        // Over a unix socket the client's may be empty.
        case .client where head.host >= 0 && !lines.value(head.host, in: bytes).isEmpty:
            out.write(lines.value(head.host, in: bytes))
        case .value: out.write(route.hostValue)
        case .client, .upstream: out.write(authority)
        }
        out.endField()
    }

    /// The same for a proxy that forwards the request: with an absolute target, whose authority its `Host` repeats (RFC 9112 §3.2.2), and
    /// with the credential for the proxy.
    private func writeStartForProxy(
        _ out: inout some HeadSink & ~Copyable, _ start: [UInt8], _ authority: [UInt8], on route: Route,
        in context: HeadContext
    ) {
        out.beginRequest(bytes[run: head.method])
        out.write(start)
        Self.writeTarget(target, bytes[run: head.target], on: route, into: &out)
        out.beginAuthority()
        out.write(authority)
        out.endField()
        guard let authorization = context.proxyAuthorization else { return }
        out.beginField("Proxy-Authorization")
        out.write(authorization)
        out.endField()
    }

    /// The target for the upstream, byte for byte but for a mapped prefix.
    ///
    /// - Parameter raw: the client's target.
    static func writeTarget(
        _ target: RequestTarget, _ raw: Bytes, on route: Route, into out: inout some ByteSink & ~Copyable
    ) {
        writePath(raw[run: target.path], on: route, into: &out)
        out.write(raw[run: target.query])
    }

    /// A client-side path, which leads to the route, as the upstream's.
    @inline(__always)
    static func writePath(_ path: Bytes, on route: Route, into out: inout some ByteSink & ~Copyable) {
        if let base = route.basePath {
            let rest = path[run: route.prefix.end(in: path)..<path.count]
            if rest.isEmpty { out.write(route.basePathAlone) } else { out.write(base) }
            out.write(rest)
        } else if path.isEmpty {
            out.write(UInt8(ascii: "/"))
        } else {
            out.write(path)
        }
    }

    /// The same as text, for a request that is not sent.
    package static func target(_ target: RequestTarget, _ raw: Bytes, on route: Route) -> String {
        var out = HeadWriter()
        writeTarget(target, raw, on: route, into: &out)
        return String(decoding: out.bytes, as: UTF8.self)
    }

    /// Writes the client's lines. Returns whether its own bearer field is among them.
    private func writeFields(
        _ out: inout some HeadSink & ~Copyable, _ authority: [UInt8], on route: Route, in context: HeadContext,
        appendsPeer: Bool
    ) -> Bool {
        var clientSentOwn = false
        var run = LineRun(in: bytes)
        let special = route.hasConfusableNames ? .all : route.ownNameLengths.union(head.connection.nominatedLengths)
        for index in 0..<lines.count {
            if lines[index].isOrdinary(besides: special) {
                run.add(lines[index], to: &out)
                continue
            }
            switch treatment(of: index, on: route, appendsPeer: appendsPeer, &clientSentOwn) {
            case .copied: run.add(lines[index], to: &out)
            case .dropped(let kind): if let kind { context.counters.countDroppedField(kind) }
            case .via:
                run.flush(to: &out)
                writeVia(&out, in: context, after: index)
            case .references:
                if !writeReferences(index, &run, &out, authority, on: route) { run.add(lines[index], to: &out) }
            case .maxForwards:
                run.flush(to: &out)
                out.writeField("Max-Forwards", decimal: max((lines.value(index, in: bytes).decimal ?? 1) - 1, 0))
            }
        }
        run.flush(to: &out)
        return clientSentOwn
    }

    /// What is written for a client's line.
    private enum Treatment {
        case copied, via, maxForwards
        /// The client's own URLs become the upstream's.
        case references
        /// nil: not counted.
        case dropped(ShardCounters.DroppedField?)
    }

    private func treatment(
        of index: Int, on route: Route, appendsPeer: Bool, _ clientSentOwn: inout Bool
    ) -> Treatment {
        let line = lines[index]
        guard line.name.isCopiedInRequests else { return .dropped(nil) }
        let name = lines.name(index, in: bytes)
        switch line.name {
        case .lanyard: return .dropped(.lookalike)
        case .expect where head.expectation != .continue100: return .dropped(nil)
        case _ where line.name.isForwarding && route.dropsForwarding: return .dropped(.forwarded)
        case .xRealIP where appendsPeer: return .dropped(.forwarded)
        case .via: return .via
        case .maxForwards where head.kind == .options && !isNominated(name): return .maxForwards
        default: break
        }
        let isInjected = route.bearerField.isNamed(name)
        if isInjected, !route.passesCredential { return .dropped(.injected) }
        if isNominated(name) { return .dropped(nil) }
        if isInjected { clientSentOwn = true }
        if line.isConfusable || route.hasConfusableNames, ConfusableNames.isDropped(name, route) {
            // A second field of the same name, which the client may pass, is no look-alike.
            if !isInjected { return .dropped(.lookalike) }
        }
        for field in route.fixedFields
        where field.name.withUnsafeBufferPointer({ $0.equalsIgnoringCase(name) }) { return .dropped(nil) }
        if let own = route.requestIDName, own.withUnsafeBufferPointer({ $0.equalsIgnoringCase(name) }) {
            return .dropped(nil)
        }
        return line.name == .destination || line.name == .condition ? .references : .copied
    }

    /// Writes a `Destination` or an `If` with the upstream's URLs in place of the client's (http-forwarding.md 10.7).
    ///
    /// - Returns: false: the line is copied as it is.
    private func writeReferences(
        _ index: Int, _ run: inout LineRun, _ out: inout some HeadSink & ~Copyable, _ authority: [UInt8],
        on route: Route
    ) -> Bool {
        let clientHost = ClientReferences.host(of: head, target, lines, in: bytes)
        let references = ClientReferences(route: route, clientHost: clientHost, isClientTLS: isClientTLS)
        let (name, value) = (lines[index].name, lines.value(index, in: bytes))
        let method = bytes[run: head.method]
        guard references.changes(name, value, method: method) else { return false }
        let host: [UInt8] =
            switch route.settings.host {
            case .client where head.host >= 0 && !clientHost.isEmpty: Array(clientHost)
            case .value: route.hostValue
            case .client, .upstream: authority
            }
        run.flush(to: &out)
        out.beginField(lines.name(index, in: bytes))
        references.write(name, value, method: method, authority: host, into: &out)
        out.endField()
        return true
    }

    /// A `Connection` line names the field, so it belongs to this hop.
    private func isNominated(_ name: Bytes) -> Bool { head.connection.nominates(name, lines, in: bytes) }

    private func writeFraming(_ out: inout some HeadSink & ~Copyable) {
        switch head.framing {
        case .length(let length): out.writeField("Content-Length", decimal: length)
        case .chunked, .untilClose: out.writeUnknownLength()
        case .none: break
        }
    }

    /// Lanyard's member stands behind the others: after the last `Via` line, or in a line of its own (RFC 9110 §7.6.3).
    private func writeVia(_ out: inout some HeadSink & ~Copyable, in context: HeadContext, after index: Int?) {
        if let index {
            out.beginField("Via")
            out.write(lines.value(index, in: bytes))
            out.endField()
            for later in (index + 1)..<max(lines.count, index + 1) where lines[later].name == .via { return }
        }
        out.beginField("Via")
        out.write(head.isHTTP2 ? "2.0 " : head.minorVersion == 0 ? "1.0 " : "1.1 " as StaticString)
        out.write(context.viaName)
        out.endField()
    }
}

/// The field of `request_id_header` as a client may send it (architecture-control.md 4.3).
///
/// A client's own id is sent upstream in place of Lanyard's, so that one id runs through all services. It must be
/// harmless in any log: one line of 1 to 64 letters, digits, `.`, `_` and `-`. Any other id is dropped, and Lanyard's
/// is sent.
enum RequestIDField {
    private static let lengthMax = 64

    /// The client's id in `lines`; nil if there is none, more than one, or none that is harmless.
    static func safe(on route: Route, _ head: RequestHead, _ lines: FieldLines, in bytes: Bytes) -> Bytes? {
        guard let own = route.requestIDName else { return nil }
        var found: Bytes?
        for index in 0..<lines.count {
            let name = lines.name(index, in: bytes)
            guard own.withUnsafeBufferPointer({ $0.equalsIgnoringCase(name) }) else { continue }
            guard found == nil else { return nil }
            found = lines.value(index, in: bytes)
        }
        guard let found, isSafe(found) else { return nil }
        // A field that `Connection` names was meant for this hop (http-forwarding.md 10.1).
        if own.withUnsafeBufferPointer({ head.connection.nominates($0, lines, in: bytes) }) { return nil }
        return found
    }

    private static func isSafe(_ value: Bytes) -> Bool {
        (1...lengthMax).contains(value.count)
            && value.allSatisfy {
                ByteClass.isAlphanumeric($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "_")
                    || $0 == UInt8(ascii: "-")
            }
    }
}

/// The field lines of `forwarded: append`, which tell the upstream the client's address (RFC 7239, http-forwarding.md 18.2).
///
/// The lines stand behind the client's own: a list is the sum of its lines, so the client's address is its last member.
/// `X-Real-IP` has one member only, so the client's own line is left out.
struct ForwardedPeer {
    /// The client's address, or `unknown`: a unix socket's peer has none (RFC 7239 §6.2).
    private let name: [UInt8]

    /// - Parameter address: the client's; nil if it is unknown.
    init(_ address: SocketAddress?) {
        let host = address?.host ?? ""
        name = Array((host.isEmpty ? "unknown" : host).utf8)
    }

    func write(into out: inout some HeadSink & ~Copyable) {
        let isIPv6 = name.contains(UInt8(ascii: ":"))
        out.beginField("Forwarded")
        out.write(isIPv6 ? "for=\"[" : "for=" as StaticString)
        out.write(name)
        if isIPv6 { out.write("]\"" as StaticString) }
        out.endField()
        out.beginField("X-Forwarded-For")
        out.write(name)
        out.endField()
        out.beginField("X-Real-IP")
        out.write(name)
        out.endField()
    }
}
