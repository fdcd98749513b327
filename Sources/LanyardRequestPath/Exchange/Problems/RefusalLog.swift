import LanyardFoundations
import Logging
import Synchronization

/// Decides which of Lanyard's own responses leave a line in the log (http-rules.md 20.5): of each problem a few in a second, so that an
/// operator sees every kind of failure although one of them floods. The others are counted, and the next line says how many.
///
/// Used by all shards, without a lock.
package final class RefusalLogLimit: Sendable {
    /// Lines of one problem in a second, all shards together.
    package static let linesPerSecondMax = 5

    /// One problem's second and its lines, packed into one word: the lines in the last 16 bits.
    private final class Window: Sendable {
        let lines = Atomic<UInt64>(0)
        let leftOut = Atomic<Int>(0)
    }

    private let windows: [String: Window]

    /// - Parameter names: what is told apart; each has its own limit.
    package init(of names: [String] = Problem.names) {
        windows = Dictionary(uniqueKeysWithValues: names.map { ($0, Window()) })
    }

    /// - Returns: how many lines of this problem were left out since the last one; nil if this one is left out, too.
    package func admit(_ problem: String, at now: Instant) -> Int? {
        guard let window = windows[problem] else { return 0 }
        let second = UInt64(now.nanoseconds / 1_000_000_000) << 16
        var seen = window.lines.load(ordering: .relaxed)
        while true {
            let isSame = seen & ~0xffff == second
            let lines = isSame ? seen & 0xffff : 0
            guard lines < Self.linesPerSecondMax else {
                window.leftOut.add(1, ordering: .relaxed)
                return nil
            }
            let exchange = window.lines.compareExchange(
                expected: seen, desired: second | (lines + 1), ordering: .relaxed)
            if exchange.exchanged { return window.leftOut.exchange(0, ordering: .relaxed) }
            seen = exchange.original
        }
    }
}

/// What the log says of a request that got a problem response.
struct RefusedRequest {
    let id: RequestID
    /// The client's own request id; empty if there is none.
    var clientID = ""
    /// Empty if the head could not be read.
    var method = ""
    /// Without the query, whose values may be secrets.
    var path = ""
    var host = ""
    var route = ""
    var user = ""
}

extension Shard {
    /// Logs a problem response: a server error as a warning or error, another one as information. Lines beyond the limit of the problem
    /// are written at debug level.
    ///
    /// - Parameter request: is asked only if a line is written.
    func log(_ problem: Problem, _ request: () -> RefusedRequest) {
        let usual: Logger.Level = problem.status == 500 ? .error : problem.status > 500 ? .warning : .info
        let level: Logger.Level
        let leftOut: Int
        if log.logLevel <= .debug {
            guard let count = debugRefusals.admitLine(at: loop.now) else { return }
            (level, leftOut) = (context.refusals.admit(problem.name, at: loop.now) == nil ? .debug : usual, count)
        } else {
            guard log.logLevel <= usual, let count = context.refusals.admit(problem.name, at: loop.now) else { return }
            (level, leftOut) = (usual, count)
        }
        let request = request()
        var metadata: Logger.Metadata = [
            "event": "request.refused", "reason": .string(problem.name), "status": .stringConvertible(problem.status),
            "request_id": .string(request.id.description), "cause": .string(problem.cause ?? problem.detail),
        ]
        for (key, value) in [
            ("method", request.method), ("path", request.path), ("host", request.host), ("route", request.route),
            ("user", request.user), ("client_request_id", request.clientID),
        ] where !value.isEmpty {
            metadata[key] = .string(value)
        }
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        log.log(level: level, "the request was refused with a problem response", metadata: metadata)
    }
}
