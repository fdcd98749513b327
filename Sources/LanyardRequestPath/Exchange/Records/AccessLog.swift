import LanyardFoundations
import LanyardSettings

/// Writes one line for each request of a shard (http-connections.md 20.2). Belongs to the shard's queue, which
/// the exchange checks.
///
/// A line costs neither a lock nor an allocation nor, while lines come, a system call. If the reader of the log is slow, lines are dropped
/// and counted.
///
/// Most of a line says the same as the line before. These runs of bytes are kept, each with what it was made of, and copied whole: member
/// by member a line costs 3,400 instructions, from runs 1,500.
final class AccessLog {
    /// Bytes of a path, before its escapes. Behind them it is cut.
    static let pathBytesMax = 1024
    /// Bytes of a method, before its escapes.
    static let methodBytesMax = 64
    /// Bytes of a usual line with a long path. Escapes can make it grow.
    private static let lineCapacity = 4 << 10
    /// Bytes of a usual run.
    private static let runCapacity = 256

    private let ring: LineRing
    private var line = HeadWriter(capacity: AccessLog.lineCapacity)
    private var opening: Opening
    private var names = HeadWriter(capacity: AccessLog.runCapacity)
    /// What `names` states.
    private var namedRoute: Route?
    private var namedUser: UserIndex?
    private var namedMethod: [UInt8] = []
    private var outcome = HeadWriter(capacity: AccessLog.runCapacity)
    /// What `outcome` states.
    private var outcomeStatus: Int?
    private var outcomeOrigin = ShardCounters.Origin.lanyard
    private var ending = HeadWriter(capacity: AccessLog.runCapacity)
    /// What `ending` states.
    private var endingGeneration: UInt64?
    /// Names by index. A user keeps its index, so that no name is looked up twice.
    private var userNames: [String?] = []

    /// Of each line.
    let format: LogSettings.Format
    private let layout: Layout

    init(_ lines: AccessLines) {
        ring = lines.ring
        format = lines.format
        layout = format == .json ? .json : .text
        opening = Opening(layout, hasPriorities: lines.hasPriorities)
        writeOutcome(nil, .lanyard, into: &outcome)
        writeEnding(retries: 0, replays: 0, nil, into: &ending)
    }

    /// - Parameters:
    ///   - head: of the request.
    ///   - route: nil: the request has none.
    ///   - unusualEnd: nil: the upstream's response was relayed whole.
    ///   - users: takes a lock, so only for a user's first line.
    func write(
        _ entry: AccessEntry, _ head: LoggedHead, of route: Route?, _ unusualEnd: borrowing AccessEntry.UnusualEnd?,
        in users: UserNames
    ) {
        line.clear()
        opening.setTime(at: entry.endedAt)
        line.write(opening.bytes)
        line.write(hex: entry.id.number)
        line.write(layout.quote)
        if let id = head.clientID { Self.writeMember(layout.clientID, id, bytesMax: .max, layout.quote, into: &line) }
        keepNames(route, entry.user, head.method, in: users)
        line.write(names.bytes)
        if !head.method.isEmpty {
            Self.escape(head.path, bytesMax: Self.pathBytesMax, into: &line)
            line.write(layout.quote)
        }
        if unusualEnd == nil, entry.upgradeObstacle == nil {
            keepOutcome(entry.status, entry.origin)
            line.write(outcome.bytes)
        } else {
            writeOutcome(entry.status, entry.origin, copy unusualEnd, entry.upgradeObstacle, into: &line)
        }
        line.write(decimal: entry.bytes)
        if entry.isHTTP2 { line.write(layout.http2) }
        writeDuration(from: entry.beganAt, to: entry.endedAt)
        if entry.retries | entry.replays == 0 {
            keepEnding(entry.generation)
            line.write(ending.bytes)
        } else {
            writeEnding(retries: entry.retries, replays: entry.replays, entry.generation, into: &line)
        }
        ring.append(line.bytes)
    }

    // MARK: Runs

    /// Up to the path.
    private func keepNames(_ route: Route?, _ user: UserIndex?, _ method: Bytes, in users: UserNames) {
        guard route !== namedRoute || user != namedUser || !method.isEqual(to: namedMethod) else { return }
        (namedRoute, namedUser) = (route, user)
        namedMethod = Array(method)
        names.clear()
        if let route { Self.write(layout.route, route.settings.name, layout.quote, into: &names) }
        if let user { Self.write(layout.user, userName(user, users), layout.quote, into: &names) }
        guard !method.isEmpty else { return }
        Self.writeMember(layout.method, method, bytesMax: Self.methodBytesMax, layout.quote, into: &names)
        names.write(layout.path)
    }

    private func userName(_ user: UserIndex, _ users: UserNames) -> String {
        while userNames.count <= user.number { userNames.append(nil) }
        if let known = userNames[user.number] { return known }
        let found = users[user]
        userNames[user.number] = found
        return found
    }

    private func keepOutcome(_ status: Int?, _ origin: ShardCounters.Origin) {
        guard status != outcomeStatus || origin != outcomeOrigin else { return }
        (outcomeStatus, outcomeOrigin) = (status, origin)
        outcome.clear()
        writeOutcome(status, origin, into: &outcome)
    }

    /// Up to the name of the number of bytes.
    private func writeOutcome(
        _ status: Int?, _ origin: ShardCounters.Origin, _ unusualEnd: AccessEntry.UnusualEnd? = nil,
        _ upgradeObstacle: UpgradeObstacle? = nil, into out: inout HeadWriter
    ) {
        if let status {
            out.write(layout.status)
            out.write(decimal: status)
        }
        Self.write(layout.origin, origin.rawValue, layout.quote, into: &out)
        if let unusualEnd {
            if let side = unusualEnd.side { Self.write(layout.side, side.rawValue, layout.quote, into: &out) }
            Self.write(layout.reason, unusualEnd.reason, layout.quote, into: &out)
            if let key = unusualEnd.key { Self.write(layout.key, key, layout.quote, into: &out) }
        }
        if let upgradeObstacle {
            Self.write(layout.upgradeDropped, upgradeObstacle.rawValue, layout.quote, into: &out)
        }
        out.write(layout.bytes)
    }

    private func keepEnding(_ generation: UInt64?) {
        guard generation != endingGeneration else { return }
        endingGeneration = generation
        ending.clear()
        writeEnding(retries: 0, replays: 0, generation, into: &ending)
    }

    private func writeEnding(retries: Int, replays: Int, _ generation: UInt64?, into out: inout HeadWriter) {
        out.write(layout.retry)
        out.write(decimal: retries)
        out.write(layout.replay)
        out.write(decimal: replays)
        if let generation {
            out.write(layout.generation)
            out.write(decimal: Int(clamping: generation))
        }
        out.write(layout.end)
    }

    private static func write(
        _ key: StaticString, _ value: String, _ quote: StaticString, into out: inout HeadWriter
    ) {
        out.write(key)
        out.write(value)
        out.write(quote)
    }

    // MARK: Members

    /// Bytes of a request, which are escaped.
    private static func writeMember(
        _ key: StaticString, _ value: Bytes, bytesMax: Int, _ quote: StaticString, into out: inout HeadWriter
    ) {
        out.write(key)
        escape(value, bytesMax: bytesMax, into: &out)
        out.write(quote)
    }

    /// Milliseconds with three decimals.
    private func writeDuration(from start: Instant, to end: Instant) {
        let nanoseconds = start == .never ? 0 : max(end.nanoseconds - start.nanoseconds, 0)
        let microseconds = Int(nanoseconds / 1000)
        line.write(layout.duration)
        line.write(decimal: microseconds / 1000)
        let fraction = microseconds % 1000
        line.write(UInt8(ascii: "."))
        line.write(UInt8(truncatingIfNeeded: fraction / 100) + 0x30)
        line.write(UInt8(truncatingIfNeeded: fraction / 10 % 10) + 0x30)
        line.write(UInt8(truncatingIfNeeded: fraction % 10) + 0x30)
    }

    /// Bytes of a request: what is not printable ASCII is escaped, as in other lines.
    private static func escape(_ bytes: Bytes, bytesMax: Int, into out: inout HeadWriter) {
        let count = min(bytes.count, bytesMax)
        guard count > 0 else { return }
        var copied = 0
        for index in 0..<count where !isPlain(bytes[index]) {
            out.write(bytes[run: copied..<index])
            copied = index + 1
            escape(bytes[index], into: &out)
        }
        out.write(bytes[run: copied..<count])
        if count < bytes.count { out.write("…" as StaticString) }
    }

    @inline(__always)
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte < 0x7f && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    private static func escape(_ byte: UInt8, into out: inout HeadWriter) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            out.write(UInt8(ascii: "\\"))
            return out.write(byte)
        case 0x80...: out.write("\\\\x" as StaticString)
        default: out.write("\\u00" as StaticString)
        }
        out.write(Hex.digit(byte >> 4))
        out.write(Hex.digit(byte & 0xf))
    }
}

extension AccessLog {
    /// What stands between the values of a line.
    fileprivate struct Layout {
        /// Before the time.
        let start: StaticString
        /// Between the time and the request's id.
        let request: StaticString
        /// Behind text.
        let quote: StaticString
        let end: StaticString
        // Before each value.
        let clientID, route, user, method, path, status, origin, side, reason, key,
            upgradeDropped: StaticString
        let bytes, duration, retry, replay, generation: StaticString

        /// Of a request on a stream of HTTP/2.
        var http2: StaticString { quote.utf8CodeUnitCount > 0 ? ",\"protocol\":\"h2\"" : " protocol=h2" }

        static let json = Layout(
            start: "{\"time\":\"",
            request: "\",\"level\":\"info\",\"msg\":\"request\",\"event\":\"access\",\"request_id\":\"", quote: "\"",
            end: "}\n", clientID: ",\"client_request_id\":\"", route: ",\"route\":\"", user: ",\"user\":\"",
            method: ",\"method\":\"", path: ",\"path\":\"", status: ",\"status\":", origin: ",\"origin\":\"",
            side: ",\"side\":\"", reason: ",\"reason\":\"", key: ",\"key\":\"",
            upgradeDropped: ",\"upgrade_dropped\":\"",
            bytes: ",\"bytes\":", duration: ",\"duration_ms\":",
            retry: ",\"retry\":", replay: ",\"replay\":", generation: ",\"generation\":")
        static let text = Layout(
            start: "", request: " info request event=access request_id=", quote: "", end: "\n",
            clientID: " client_request_id=", route: " route=", user: " user=", method: " method=", path: " path=",
            status: " status=", origin: " origin=", side: " side=", reason: " reason=", key: " key=",
            upgradeDropped: " upgrade_dropped=", bytes: " bytes=",
            duration: " duration_ms=", retry: " retry=", replay: " replay=", generation: " generation=")
    }
}

/// The beginning of every line, up to the request's id: only the time in it changes.
private struct Opening: ~Copyable {
    private let start: UnsafeMutablePointer<UInt8>
    private let count: Int
    /// Where the time stands.
    private let place: Int
    /// Whose time it is, by the loop's clock.
    private var instant = Instant.never
    private var second: Int64 = -1

    init(_ layout: AccessLog.Layout, hasPriorities: Bool) {
        // The level of every line is info (sd-daemon(3)).
        let before = Array((hasPriorities ? "<6>" : "").utf8) + layout.start.bytes
        let behind = layout.request.bytes
        place = before.count
        count = place + Timestamp.count + behind.count
        start = .allocate(capacity: count)
        start.initialize(repeating: 0, count: count)
        start.update(from: before, count: before.count)
        (start + place + Timestamp.count).update(from: behind, count: behind.count)
    }

    deinit { start.deallocate() }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: count) }

    /// Sets the present time. Lines of one turn of the loop share it, and most lines share their second with the one before.
    ///
    /// - Parameter instant: the loop's present one.
    mutating func setTime(at instant: Instant) {
        guard instant != self.instant else { return }
        self.instant = instant
        let time = WallTime.now
        if time.seconds != second {
            second = time.seconds
            Timestamp.write(time, into: start + place)
        } else {
            Timestamp.writeMilliseconds(of: time, into: start + place)
        }
    }
}

extension StaticString {
    fileprivate var bytes: [UInt8] { Array(Bytes(start: utf8Start, count: utf8CodeUnitCount)) }
}

/// Where the access log of one shard goes.
package struct AccessLines: Sendable {
    let ring: LineRing
    let format: LogSettings.Format
    let hasPriorities: Bool

    /// - Parameter hasPriorities: each line begins with its priority, as systemd's journal reads it.
    package init(_ ring: LineRing, _ format: LogSettings.Format, hasPriorities: Bool) {
        self.ring = ring
        self.format = format
        self.hasPriorities = hasPriorities
    }
}

/// What the access log says of one request, in numbers.
struct AccessEntry {
    /// The side that an unusual end comes from.
    enum Side: String { case client, upstream, lanyard }

    /// A request that did not end with a whole response of the upstream.
    struct UnusualEnd {
        /// nil: it does not show which one.
        var side: Side?
        /// The name of the problem response, or what cut the exchange off.
        var reason: String
        /// The key of the configuration that has ended it; nil: none has.
        var key: String?

        init(_ side: Side?, _ reason: String, key: String? = nil) {
            self.side = side
            self.reason = reason
            self.key = key
        }

        /// A response that was cut off.
        init(_ cut: ResponseCut) {
            switch cut {
            case .upstream: self.init(.upstream, "response-cut-off")
            case .idle: self.init(.lanyard, "response-idle")
            case .memory: self.init(.lanyard, "response-overloaded")
            case .request: self.init(.client, "request-malformed")
            case .logout: self.init(.lanyard, "response-logout")
            case .switched: self.init(.lanyard, "response-switch")
            }
            key = cut.key
        }
    }

    let id: RequestID
    var user: UserIndex?
    /// nil: no response was sent.
    var status: Int?
    var origin: ShardCounters.Origin
    /// nil: no `Upgrade` was dropped.
    var upgradeObstacle: UpgradeObstacle?
    /// Bytes of the response's body; of a tunnel those for the client.
    var bytes: Int
    /// The request came on a stream.
    var isHTTP2 = false
    var beganAt: Instant
    var endedAt: Instant
    /// Sendings after a stale connection.
    var retries: Int
    /// Sendings after a refused token.
    var replays: Int
    /// Of the token that the request was sent with; nil: it was not sent.
    var generation: UInt64?
}

/// What the access log says of a request's head. Empty: it could not be read.
struct LoggedHead {
    var method = Bytes(start: nil, count: 0)
    /// Without the query, whose values may be secrets.
    var path = Bytes(start: nil, count: 0)
    /// The client's own request id; nil: it has none, or an unsafe one.
    var clientID: Bytes?
}
