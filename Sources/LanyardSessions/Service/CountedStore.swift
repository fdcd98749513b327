import LanyardFoundations
import LanyardSessionInterface

/// The store of all sessions, with what it held when it was opened. Each change is counted in the report.
struct CountedStore: Sendable {
    let store: any SessionStore
    /// What the store held when it was opened.
    let contents: StoreContents
    let board: SessionReportBoard

    /// Hands a change to the store and counts its result. `reply` is called on any queue.
    func commit(_ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void) {
        store.commit(change) { [board] result in
            Self.count(result, on: board)
            reply(result)
        }
    }

    /// Begins a call; the change is counted as by `commit`.
    func begin(_ user: String, _ intent: StoreChange, reply: @escaping @Sendable (StoreBeginning) -> Void) {
        store.begin(user, intent) { [board] result in
            if case .attempted(let attempt, _) = result { Self.count(attempt, on: board) }
            reply(result)
        }
    }

    private static func count(_ attempt: StoreBeginning.Attempt, on board: SessionReportBoard) {
        let outcome =
            switch attempt {
            case .begun: "stored"
            case .moved: "overtaken"
            case .unwritten, .unreadable: "failed"
            }
        board.count("lanyard_store_writes", [.init("result", outcome)])
    }

    private static func count(_ result: Result<StoreChange.Verdict, StoreError>, on board: SessionReportBoard) {
        let outcome =
            switch result {
            case .success(.stored), .success(.storedEnding): "stored"
            case .success(.overtaken), .success(.inUse): "overtaken"
            case .failure: "failed"
            }
        board.count("lanyard_store_writes", [.init("result", outcome)])
    }
}
