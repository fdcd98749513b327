import LanyardFoundations
import Logging

/// How many lines of the log Lanyard's own responses and failed handshakes leave (http-connections.md 20.5): of each kind a few in a
/// second, so that an operator sees every kind of failure although one of them floods. The others are counted, and a later line says how
/// many.
enum RefusalLog {
    /// Lines of one kind in a second, all shards together.
    private static let linesPerSecondMax = 5
    /// Lines in a second at debug level, of one shard.
    private static let debugLinesPerSecondMax = 1000

    /// A throttle for each of these kinds.
    static func throttles(of names: [String]) -> LogThrottles {
        LogThrottles(of: names, linesMax: linesPerSecondMax, per: .seconds(1))
    }

    /// Of requests that meet the renewal of their token and cannot be sent again, in one shard.
    static func renewalThrottle() -> SharedLogThrottle {
        SharedLogThrottle(linesMax: linesPerSecondMax, per: .seconds(1))
    }

    /// The throttle of one shard at debug level.
    static func debugThrottle() -> SharedLogThrottle {
        SharedLogThrottle(linesMax: debugLinesPerSecondMax, per: .seconds(1))
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
        loop.assertIsCurrent()
        let usual: Logger.Level = problem.status == 500 ? .error : problem.status > 500 ? .warning : .info
        let level: Logger.Level
        let leftOut: Int
        let throttle = context.refusals[problem.name]
        if log.logLevel <= .debug {
            guard let count = debugRefusals.admitLine(at: loop.now) else {
                return reportSuppressed(debugRefusals, "several", .debug)
            }
            let isAdmitted = throttle.admitLine(at: loop.now) != nil
            // The line is written at debug level and not left out.
            if !isAdmitted { throttle.takeSuppressedCount() }
            (level, leftOut) = (isAdmitted ? usual : .debug, count)
        } else {
            guard log.logLevel <= usual else { return }
            guard let count = throttle.admitLine(at: loop.now) else {
                return reportSuppressed(throttle, problem.name, usual)
            }
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

    /// A line was left out: the count is logged when the flood has stopped.
    private func reportSuppressed(_ throttle: SharedLogThrottle, _ reason: String, _ level: Logger.Level) {
        guard !suppressed.isPending(throttle) else { return }
        suppressed.add(throttle) { [log] count in
            log.log(
                level: level, "further requests were refused with a problem response",
                metadata: [
                    "event": "request.refused", "reason": .string(reason), "left_out": .stringConvertible(count),
                ])
        }
    }
}
