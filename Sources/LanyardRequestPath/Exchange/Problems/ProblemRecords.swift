import LanyardFoundations
import Logging

extension RequestLog {
    /// Logs a problem response: a server error as a warning or error, another one as information. Lines beyond the limit of the problem
    /// are written at debug level.
    ///
    /// - Parameter request: is asked only if a line is written.
    func record(_ problem: Problem, _ request: () -> RefusedRequest) {
        loop.assertIsCurrent()
        let usual: Logger.Level = problem.status == 500 ? .error : problem.status > 500 ? .warning : .info
        let level: Logger.Level
        let leftOut: Int
        let throttle = throttles.refusals[problem.name]
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

extension RouteCounters {
    /// A server error of Lanyard's own.
    func recordFailure(_ problem: Problem, at now: Instant) {
        if problem.isMissingToken { countWithoutToken() }
        if let kind = problem.failureKind { failures.record(kind, problem.cause ?? problem.detail, at: now) }
    }
}

extension Problem {
    /// What the status says of a route whose request got the problem; nil: nothing.
    fileprivate var failureKind: RouteFailures.Kind? {
        switch name {
        case "upstream-unreachable", "upstream-timeout", "upstream-invalid", "loop": .upstream
        case "overloaded": .overload
        default: isMissingToken ? .token : nil
        }
    }
}

extension AccessEntry.UnusualEnd {
    /// A response of Lanyard's own.
    init(_ problem: Problem) {
        let side: AccessEntry.Side =
            switch problem.status {
            case 502, 504: .upstream
            case 500...: .lanyard
            default: .client
            }
        self.init(side, problem.name)
    }
}
