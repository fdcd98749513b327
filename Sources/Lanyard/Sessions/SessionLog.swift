import Logging

/// How a session's decisions stand in the log: one line each, with event, reason, state and the next time (architecture.md 7.3).
enum SessionLog {
    static func write(
        _ note: SessionNote, state: SessionState, generation: UInt64, at moment: SessionMoment, to logger: Logger
    ) {
        var metadata: Logger.Metadata = [
            "event": .string(note.name), "reason": .string(note.reason), "state": .string(state.rawValue),
            "generation": .stringConvertible(generation),
        ]
        if let next = note.nextAt, let wall = wall(of: next, moment) {
            metadata["next_at"] = .string(Timestamp.text(wall))
        }
        for (name, value) in note.details { metadata[name] = .string(value) }
        describe(note.fault, in: &metadata)
        logger.log(level: note.level.loggerLevel, "\(note.words)", metadata: metadata)
    }

    /// What the wall clock will say then; nil for never.
    static func wall(of instant: Instant, _ moment: SessionMoment) -> WallTime? {
        instant == .never ? nil : moment.wall + (instant - moment.instant)
    }

    private static func describe(_ fault: IdentityFault?, in metadata: inout Logger.Metadata) {
        guard let fault else { return }
        metadata["error"] = .string(fault.words)
        if let status = fault.status { metadata["status"] = .stringConvertible(status) }
        if let code = fault.code { metadata["error_code"] = .string(code) }
    }
}

extension SessionNote.Level {
    fileprivate var loggerLevel: Logger.Level {
        switch self {
        case .info: .info
        case .warning: .warning
        case .error: .error
        }
    }
}
