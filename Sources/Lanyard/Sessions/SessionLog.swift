import Logging

/// Writes session log events: one line each, with event, reason, state and the next time (architecture.md 7.3).
enum SessionLog {
    static func write(
        _ logEvent: SessionLogEvent, state: SessionState, generation: UInt64, at eventContext: EventContext,
        to logger: Logger
    ) {
        var metadata: Logger.Metadata = [
            "event": .string(logEvent.name), "reason": .string(logEvent.reason), "state": .string(state.rawValue),
            "generation": .stringConvertible(generation),
        ]
        if let next = logEvent.nextAt, let wall = wall(of: next, eventContext) {
            metadata["next_at"] = .string(Timestamp.text(wall))
        }
        for (name, value) in logEvent.details { metadata[name] = .string(value) }
        for (name, value) in logEvent.counts { metadata[name] = .stringConvertible(value) }
        describe(logEvent.error, in: &metadata)
        logger.log(level: logEvent.level.loggerLevel, "\(logEvent.message)", metadata: metadata)
    }

    /// The wall clock's time at `instant`; nil for never.
    static func wall(of instant: Instant, _ eventContext: EventContext) -> WallTime? {
        instant == .never ? nil : eventContext.wall + (instant - eventContext.instant)
    }

    private static func describe(_ error: IdentityError?, in metadata: inout Logger.Metadata) {
        guard let error else { return }
        metadata["error"] = .string(error.message)
        if let status = error.status { metadata["status"] = .stringConvertible(status) }
        if let code = error.code { metadata["error_code"] = .string(code) }
    }
}

extension SessionLogEvent.Level {
    fileprivate var loggerLevel: Logger.Level {
        switch self {
        case .info: .info
        case .warning: .warning
        case .error: .error
        }
    }
}
