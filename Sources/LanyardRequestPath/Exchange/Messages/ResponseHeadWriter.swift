import LanyardSettings

/// Writes a response head for the client from its parsed form (http-forwarding.md 10 to 12).
///
/// The context and the route are arguments: to hold them would count references.
struct ResponseHeadWriter: ~Copyable {
    let bytes: Bytes
    let head: ResponseHead
    let lines: FieldLines
    /// The client is reached by TLS.
    let isClientTLS: Bool
    /// The client's `Host`; empty: it has sent none, or no reference is mapped.
    let clientHost: Bytes
    /// The client's version: 0 for HTTP/1.0, 1 for HTTP/1.1.
    let clientMinorVersion: Int
    let isResponseToHead: Bool
    let isClientHTTP2: Bool
    /// The upstream's head had no place for a reason.
    var lacksReason = false
    /// Trailers of the upstream are relayed, so `Trailer` may announce them.
    var keepsTrailer = false

    /// Writes a 1xx: its fields without those of framing and those that are not forwarded.
    func writeInterim(into out: inout some HeadSink & ~Copyable, on route: ShardRoute, in context: HeadContext) {
        var run = start(&out)
        _ = writeFields(&run, &out, on: route, in: context, keepsLength: false)
        out.endHead()
    }

    /// Writes a 101: as an interim response, with the granted protocol.
    func writeSwitching(
        into out: inout some HeadSink & ~Copyable, to granted: [UInt8], on route: ShardRoute, in context: HeadContext
    ) {
        var run = start(&out)
        run.flush(to: &out)
        out.writeSwitch(to: granted)
        _ = writeFields(&run, &out, on: route, in: context, keepsLength: false)
        out.endHead()
    }

    /// Writes a 101 as the 200 by which a client of HTTP/2 learns that its tunnel is open (RFC 8441 §5).
    func writeAgreement(into out: inout some HeadSink & ~Copyable, on route: ShardRoute, in context: HeadContext) {
        let phrase = ReasonPhrase.of(200)
        out.beginResponse(200, reason: Bytes(start: phrase.utf8Start, count: phrase.utf8CodeUnitCount))
        var run = LineRun(in: bytes)
        var growth = AddressMapping.Growth()
        for index in 0..<lines.count
        where isCopied(index, on: route.route, in: context, keepsLength: false)
            && !lines.name(index, in: bytes).equals(lowered: WebSocketKey.replyName)
        {
            if !writeMapped(index, &run, &out, &growth, on: route) { run.add(lines[index], to: &out) }
        }
        run.flush(to: &out)
        if !(0..<lines.count).contains(where: { lines[$0].name == .date }) { context.writeDate(&out) }
        out.endHead()
    }

    /// - Parameters:
    ///   - delivery: how the body is sent to the client.
    ///   - closes: writes `Connection: close`.
    ///   - replayObstacle: why a response that refuses the token was not replaced by a replay.
    func writeFinal(
        into out: inout some HeadSink & ~Copyable, on route: ShardRoute, in context: HeadContext,
        delivery: ResponseBody.Delivery,
        closes: Bool, replayObstacle: ReplayObstacle?
    ) {
        var run = start(&out)
        // HEAD and 304 responses describe a body that is not sent; a 204 has none to describe (RFC 9110 §8.6).
        let isDescribed = isResponseToHead || head.status == 304
        let keepsLength = isDescribed && head.status != 204
        let isDated = writeFields(&run, &out, on: route, in: context, keepsLength: keepsLength)
        if case .length(let length) = head.framing { out.writeField("Content-Length", decimal: length) }
        if delivery == .chunked { out.writeUnknownLength() }
        if !isDated { context.writeDate(&out) }
        if let replayObstacle {
            // Behind the upstream's own member (RFC 9209 §2, http-forwarding.md 17.5).
            out.beginField("Proxy-Status")
            out.write("lanyard; received-status=" as StaticString)
            out.write(decimal: head.status)
            out.write("; details=\"replay-not-possible: " as StaticString)
            out.write(replayObstacle.details)
            out.write(UInt8(ascii: "\""))
            out.endField()
        }
        if head.status == 426, hasUpgrade { out.writeUpgradeOption() }
        out.writePersistence(closes: closes, clientMinorVersion: clientMinorVersion)
        out.endHead()
    }

    private var hasUpgrade: Bool { (0..<lines.count).contains { lines[$0].name == .upgrade } }

    /// The status line: the first line of a run if it has the form in which Lanyard writes it, else it is written.
    private func start<Sink: HeadSink & ~Copyable>(_ out: inout Sink) -> LineRun {
        if lacksReason {
            let phrase = ReasonPhrase.of(head.status)
            out.beginResponse(head.status, reason: Bytes(start: phrase.utf8Start, count: phrase.utf8CodeUnitCount))
            return LineRun(in: bytes)
        }
        if Sink.copiesLines, head.reason.lowerBound == Self.reasonStart, bytes[Self.minorVersion] == UInt8(ascii: "1"),
            bytes[Self.reasonStart - 1] == 0x20
        {
            return LineRun(in: bytes, beginningWith: 0..<head.reason.upperBound + 2)
        }
        out.beginResponse(head.status, reason: bytes[run: head.reason])
        return LineRun(in: bytes)
    }

    /// The place of the last digit in `HTTP/1.1`.
    private static let minorVersion = 7
    /// The place of the reason behind `HTTP/1.1 200 `.
    private static let reasonStart = 13

    /// - Parameter run: what was written before the fields.
    /// - Returns: whether a `Date` was written: the upstream may send none, or name it in `Connection`.
    private func writeFields(
        _ run: inout LineRun, _ out: inout some HeadSink & ~Copyable, on shardRoute: ShardRoute,
        in context: HeadContext,
        keepsLength: Bool
    ) -> Bool {
        var isDated = false
        var growth = AddressMapping.Growth()
        let route = shardRoute.route
        let special = route.hasConfusableNames ? .all : route.ownNameLengths.union(head.connection.nominatedLengths)
        let hasReferenceNames = route.hasReferenceNames
        for index in 0..<lines.count
        where lines[index].isOrdinary(besides: special)
            || isCopied(index, on: route, in: context, keepsLength: keepsLength)
        {
            if lines[index].name != .other || hasReferenceNames, writeMapped(index, &run, &out, &growth, on: shardRoute)
            {
                continue
            }
            run.add(lines[index], to: &out)
            if lines[index].name == .date { isDated = true }
        }
        run.flush(to: &out)
        return isDated
    }

    /// Writes a line with an address of the upstream's as the client sees it, or drops it (http-forwarding.md 12.6).
    ///
    /// - Returns: false: the line is copied as it is.
    private func writeMapped(
        _ index: Int, _ run: inout LineRun, _ out: inout some HeadSink & ~Copyable,
        _ growth: inout AddressMapping.Growth,
        on shardRoute: ShardRoute
    ) -> Bool {
        let route = shardRoute.route
        guard let field = mappedField(index, on: route) else { return false }
        let mapping = AddressMapping(
            route: route, isTLS: shardRoute.isTLS, isClientTLS: isClientTLS, authority: shardRoute.authority,
            clientHost: clientHost)
        let value = lines.value(index, in: bytes)
        switch mapping.change(of: value, field, &growth) {
        case .none: return false
        case .dropped: break
        case .mapped:
            run.flush(to: &out)
            out.beginField(lines.name(index, in: bytes))
            mapping.write(value, field, into: &out)
            out.endField()
        }
        return true
    }

    /// How the value of a line is mapped; nil: it is not.
    private func mappedField(_ index: Int, on route: Route) -> AddressMapping.Field? {
        let field: AddressMapping.Field
        switch lines[index].name {
        case .setCookie: return route.settings.cookies == .rewrite ? .cookie : nil
        case .location, .contentLocation: field = .location
        case .reference: field = .reference
        case .link: field = .links
        case .refresh: field = .refresh
        default:
            guard route.hasReferenceNames, route.isReference(lines.name(index, in: bytes)) else { return nil }
            field = .reference
        }
        return route.settings.redirects == .rewrite ? field : nil
    }

    private func isCopied(_ index: Int, on route: Route, in context: HeadContext, keepsLength: Bool) -> Bool {
        let line = lines[index]
        guard
            line.name.isCopiedInResponses(status: head.status, keepsLength: keepsLength, keepsTrailer: keepsTrailer)
        else { return false }
        // HTTP/2 has no upgrade (RFC 9113 §8.6).
        if isClientHTTP2, line.name == .upgrade { return false }
        // Other places of the upstream, where the client would be without a token.
        if line.name == .altSvc, route.settings.redirects == .rewrite { return false }
        let name = lines.name(index, in: bytes)
        if line.name == .lanyard
            || ConfusableNames.isDroppedInResponses(name, isConfusable: line.isConfusable, route)
        {
            context.counters.countDroppedField(.lookalike)
            return false
        }
        return !head.connection.nominates(name, lines, in: bytes) || line.name.ignoresNomination
    }
}
