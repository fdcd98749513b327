import LanyardFoundations
import LanyardSettings

/// Writes one line for each request of a shard (http-rules.md 20.2). Belongs to the shard's queue.
///
/// A line costs neither a lock nor an allocation nor, while lines come, a system call. If the reader of the log is slow, lines are dropped
/// and counted.
final class AccessLog {
    /// Bytes of a path, before its escapes. Behind them it is cut.
    static let pathBytesMax = 1024
    /// Bytes of a method, before its escapes.
    static let methodBytesMax = 64
    /// Bytes of a usual line with a long path. Escapes can make it grow.
    private static let lineCapacity = 4 << 10

    private let ring: LineRing
    private var line = HeadWriter(capacity: AccessLog.lineCapacity)
    private var second: Int64 = -1
    /// The time of the latest line.
    private var timestamp = [UInt8](repeating: 0, count: Timestamp.count)
    /// Names by index. A user keeps its index, so that no name is looked up twice.
    private var userNames: [String?] = []

    /// Of each line.
    let format: LogSettings.Format
    private let layout: Layout
    private let hasPriorities: Bool

    init(_ lines: AccessLines) {
        ring = lines.ring
        format = lines.format
        layout = format == .json ? .json : .text
        hasPriorities = lines.hasPriorities
    }

    func write(_ entry: AccessEntry, in context: ExchangeContext) {
        line.clear()
        // The level of every line is info (sd-daemon(3)).
        if hasPriorities { line.write("<6>" as StaticString) }
        line.write(layout.start)
        writeTime(.now)
        line.write(layout.request)
        line.write(hex: entry.id.number)
        line.write(layout.quote)
        if let id = entry.clientID { member(layout.clientID, id) }
        if let route = entry.route { member(layout.route, route.settings.name) }
        if let user = entry.user { member(layout.user, userName(user, context)) }
        if !entry.method.isEmpty {
            member(layout.method, entry.method, bytesMax: Self.methodBytesMax)
            member(layout.path, entry.path, bytesMax: Self.pathBytesMax)
        }
        if let status = entry.status { number(layout.status, status) }
        member(layout.origin, entry.origin.rawValue)
        if let end = entry.unusualEnd {
            if let side = end.side { member(layout.side, side.rawValue) }
            member(layout.reason, end.reason)
        }
        if let obstacle = entry.upgradeObstacle { member(layout.upgradeDropped, obstacle.rawValue) }
        number(layout.bytes, entry.bytes)
        writeDuration(from: entry.beganAt, to: entry.endedAt)
        number(layout.retry, entry.retries)
        number(layout.replay, entry.replays)
        if let generation = entry.generation { number(layout.generation, Int(clamping: generation)) }
        line.write(layout.end)
        ring.append(line.bytes)
    }

    private func userName(_ user: UserIndex, _ context: ExchangeContext) -> String {
        while userNames.count <= user.number { userNames.append(nil) }
        if let known = userNames[user.number] { return known }
        let found = context.userName(user)
        userNames[user.number] = found
        return found
    }

    // MARK: Members

    /// Most lines share their second with the one before, and then only the milliseconds are written.
    private func writeTime(_ time: WallTime) {
        timestamp.withUnsafeMutableBufferPointer { room in
            guard let start = room.baseAddress else { return }
            if time.seconds != second {
                second = time.seconds
                Timestamp.write(time, into: start)
            } else {
                Timestamp.writeMilliseconds(of: time, into: start)
            }
        }
        line.write(timestamp)
    }

    private func member(_ key: StaticString, _ value: String) {
        line.write(key)
        line.write(value)
        line.write(layout.quote)
    }

    /// Bytes of a request, which are escaped.
    private func member(_ key: StaticString, _ value: Bytes, bytesMax: Int = .max) {
        line.write(key)
        escape(value, bytesMax: bytesMax)
        line.write(layout.quote)
    }

    private func number(_ key: StaticString, _ value: Int) {
        line.write(key)
        line.write(decimal: value)
    }

    /// Milliseconds with three decimals.
    private func writeDuration(from start: Instant, to end: Instant) {
        let nanoseconds = start == .never ? 0 : max(end.nanoseconds - start.nanoseconds, 0)
        let microseconds = Int(nanoseconds / 1000)
        number(layout.duration, microseconds / 1000)
        let fraction = microseconds % 1000
        line.write(UInt8(ascii: "."))
        line.write(UInt8(truncatingIfNeeded: fraction / 100) + 0x30)
        line.write(UInt8(truncatingIfNeeded: fraction / 10 % 10) + 0x30)
        line.write(UInt8(truncatingIfNeeded: fraction % 10) + 0x30)
    }

    /// Bytes of a request: what is not printable ASCII is escaped, as in other lines.
    private func escape(_ bytes: Bytes, bytesMax: Int) {
        let count = min(bytes.count, bytesMax)
        guard count > 0 else { return }
        var copied = 0
        for index in 0..<count where !Self.isPlain(bytes[index]) {
            line.write(bytes[run: copied..<index])
            copied = index + 1
            escape(bytes[index])
        }
        line.write(bytes[run: copied..<count])
        if count < bytes.count { line.write("…" as StaticString) }
    }

    @inline(__always)
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte < 0x7f && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    private func escape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            line.write(UInt8(ascii: "\\"))
            return line.write(byte)
        case 0x80...: line.write("\\\\x" as StaticString)
        default: line.write("\\u00" as StaticString)
        }
        line.write(Hex.digit(byte >> 4))
        line.write(Hex.digit(byte & 0xf))
    }
}

extension AccessLog {
    /// What stands between the values of a line.
    private struct Layout {
        /// Before the time.
        let start: StaticString
        /// Between the time and the request's id.
        let request: StaticString
        /// Behind text.
        let quote: StaticString
        let end: StaticString
        // Before each value.
        let clientID, route, user, method, path, status, origin, side, reason,
            upgradeDropped: StaticString
        let bytes, duration, retry, replay, generation: StaticString

        static let json = Layout(
            start: "{\"time\":\"",
            request: "\",\"level\":\"info\",\"msg\":\"request\",\"event\":\"access\",\"request_id\":\"", quote: "\"",
            end: "}\n", clientID: ",\"client_request_id\":\"", route: ",\"route\":\"", user: ",\"user\":\"",
            method: ",\"method\":\"", path: ",\"path\":\"", status: ",\"status\":", origin: ",\"origin\":\"",
            side: ",\"side\":\"", reason: ",\"reason\":\"", upgradeDropped: ",\"upgrade_dropped\":\"",
            bytes: ",\"bytes\":", duration: ",\"duration_ms\":",
            retry: ",\"retry\":", replay: ",\"replay\":", generation: ",\"generation\":")
        static let text = Layout(
            start: "", request: " info request event=access request_id=", quote: "", end: "\n",
            clientID: " client_request_id=", route: " route=", user: " user=", method: " method=", path: " path=",
            status: " status=", origin: " origin=", side: " side=", reason: " reason=",
            upgradeDropped: " upgrade_dropped=", bytes: " bytes=",
            duration: " duration_ms=", retry: " retry=", replay: " replay=", generation: " generation=")
    }
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

/// What the access log says of one request.
struct AccessEntry {
    /// The side that an unusual end comes from.
    enum Side: String { case client, upstream, lanyard }

    /// A request that did not end with a whole response of the upstream.
    struct UnusualEnd {
        /// nil: it does not show which one.
        var side: Side?
        /// The name of the problem response, or what cut the exchange off.
        var reason: String

        init(_ side: Side, _ reason: String) {
            self.side = side
            self.reason = reason
        }

        /// A response of Lanyard's own.
        init(_ problem: Problem) {
            reason = problem.name
            switch problem.status {
            case 502, 504: side = .upstream
            case 500...: side = .lanyard
            default: side = .client
            }
        }

        /// nil: both sides have ended the tunnel.
        init?(_ end: Tunnel.End) {
            reason = "tunnel-\(end.rawValue)"
            switch end {
            case .ended: return nil
            case .reset, .stuck: side = nil
            case .idle, .aged, .logout, .switched, .distrusted, .aborted: side = .lanyard
            }
        }
    }

    let id: RequestID
    /// The client's own request id.
    var clientID: Bytes?
    /// Empty if the head could not be read.
    var method: Bytes
    /// Without the query, whose values may be secrets.
    var path: Bytes
    var route: Route?
    var user: UserIndex?
    /// nil: no response was sent.
    var status: Int?
    var origin: ShardCounters.Origin
    /// nil: the upstream's response was relayed whole.
    var unusualEnd: UnusualEnd?
    /// nil: no `Upgrade` was dropped.
    var upgradeObstacle: UpgradeObstacle?
    /// Bytes of the response's body; of a tunnel those for the client.
    var bytes: Int
    var beganAt: Instant
    var endedAt: Instant
    /// Sendings after a stale connection.
    var retries: Int
    /// Sendings after a refused token.
    var replays: Int
    /// Of the token that the request was sent with; nil: it was not sent.
    var generation: UInt64?
}
