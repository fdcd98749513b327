import LanyardSessionInterface

/// Where a process of the fleet can be stopped: before or after a disk call of one operation on the store, or before an act.
package struct CrashPoint: Hashable, Sendable {
    /// What the process was about.
    package enum Work: Int, CaseIterable, Sendable {
        case open, read, lockUser, unlockUser
        // Changes of the store.
        case storeIntent, clearIntent, dropRefreshToken, saveSession, recordRefusal, end, logOut, beginDeletion,
            cancelDeletion, other
        /// A new file in place of the store's: what each of these changes comes to now and then.
        case replace
        // Between two acts of a session, no disk call in progress.
        case login, refresh, revoke, publish, response, account

        init(_ change: StoreChange) {
            self =
                switch change {
                case .storeIntent: .storeIntent
                case .clearIntent: .clearIntent
                case .dropRefreshToken: .dropRefreshToken
                case .saveSession: .saveSession
                case .recordRefusal: .recordRefusal
                case .end: .end
                case .logOut: .logOut
                case .beginDeletion: .beginDeletion
                case .cancelDeletion: .cancelDeletion
                default: .other
                }
        }

        var isChange: Bool { rawValue >= Work.storeIntent.rawValue && rawValue <= Work.other.rawValue }
    }

    package enum Call: Int, CaseIterable, Sendable {
        case inspect, read, create, write, synchronize, rename, synchronizeFolder, unlink, lock, unlock, overwrite
        case extend, cut, synchronizeAgain
        /// No disk call.
        case none
    }

    package var work: Work
    package var call: Call

    package init(_ work: Work, _ call: Call) {
        self.work = work
        self.call = call
    }

    /// - Parameters:
    ///   - work: what the process is about.
    ///   - isOfNewFile: the call is about a file that is to be the store's.
    init(_ work: Work, _ call: Call, isOfNewFile: Bool) {
        self.init(isOfNewFile && work.isChange ? .replace : work, call)
    }

    static let count = Work.allCases.count * Call.allCases.count
    var index: Int { work.rawValue * Call.allCases.count + call.rawValue }

    init(index: Int) {
        work = Work(rawValue: index / Call.allCases.count)!
        call = Call(rawValue: index % Call.allCases.count)!
    }

    /// While the store is opened.
    static let opening = [Call.inspect, .read, .lock, .create, .unlink, .unlock].map { CrashPoint(.open, $0) }

    /// All places where a process can be: what a long run must have reached.
    package static let possible = withoutAccounts + withAccounts

    /// Of a change that adds a record.
    private static let additions: [Call] = [.lock, .read, .extend, .write, .synchronize, .unlock]

    private static let replacing: [CrashPoint] = [
        Call.unlink, .create, .write, .synchronize, .rename, .synchronizeFolder,
    ].map { CrashPoint(.replace, $0) }

    /// In links and deletions.
    private static let withAccounts =
        [Work.beginDeletion, .cancelDeletion].flatMap { work in additions.map { CrashPoint(work, $0) } }
        + [CrashPoint(.account, .none)]

    private static let withoutAccounts: [CrashPoint] = {
        let changes: [Work] = [.storeIntent, .clearIntent, .dropRefreshToken, .saveSession, .recordRefusal, .end]
        let acts: [Work] = [.login, .refresh, .revoke, .publish, .response]
        return changes.flatMap { work in additions.map { CrashPoint(work, $0) } } + acts.map { CrashPoint($0, .none) }
            + replacing + opening
            + [
                // A logout always makes a new file.
                CrashPoint(.logOut, .lock), CrashPoint(.logOut, .read), CrashPoint(.logOut, .unlock),
                CrashPoint(.read, .read), CrashPoint(.lockUser, .lock), CrashPoint(.unlockUser, .unlock),
            ]
    }()

    /// Those that a process is armed with by lot: what it comes to seldom is drawn more often.
    static let drawn: [CrashPoint] = withoutAccounts.flatMap { point in
        let often: Int =
            switch point.work {
            // A call has failed.
            case .clearIntent: 4
            // A session without a credential has died.
            case .end: 2
            default: 1
            }
        return Array(repeating: point, count: often)
    }

    /// The same in a world whose operators link and delete accounts, which one plan in two has.
    static let drawnWithAccounts = drawn + withAccounts + withAccounts

    package var name: String { call == .none ? "before \(work)" : "\(work): \(call)" }
}
