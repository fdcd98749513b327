import CLinux
import Glibc
import Logging

/// Notices changes of watched files, and says when each file is read.
///
/// One inotify instance watches the folders in which the names of all paths are looked up, those of symbolic links included. An event leads
/// to a read within milliseconds. Beside it each file is looked at once a minute (`SlowChecks`), because the kernel reports no change
/// through another hard link, and no mount over a folder. A file for which there is no inotify, or of a file system that other machines
/// write to, is read in intervals: every 2 s, or less often if that would be more than `ReadPace.perSecond` reads a second for all files.
///
/// The readers of a process share one. The files and the instance are behind a lock: walks along paths are on the readers' threads. All
/// else belongs to the loop's queue.
package final class FileChangeMonitor: Watcher, @unchecked Sendable {
    private struct State {
        var files = WatchedFiles()
        /// nil: not needed yet, or not to be had.
        var inotify: Inotify?
        /// Why there is no instance, and when it is tried again.
        var failure: (obstacle: FileNoticeError, until: Instant)?
        /// A shortage was logged.
        var hasLogged = false
        /// Of reads that events, intervals and slow checks ask for.
        var pace = ReadPace()
        /// Of reads after an event of few files: they do not wait behind those of all files.
        var eventPace = ReadPace()
        /// Files that logins have used, until their watches are told.
        var usedFiles: Set<WatchedFiles.ID> = []
    }

    /// After this time it is tried again to make an instance.
    private static let retryDelay = Duration.seconds(60)
    /// Between two reads of a file because of events.
    static let eventInterval = Duration.milliseconds(50)
    /// An event of a name on which more files depend than this is an event of a shared folder: their reads are spread.
    private static let fewFilesMax = 16
    /// Bytes of events that are read at once.
    private static let roomBytes = 16 << 10
    /// A loop has other watchers: further events are read in its next turn.
    private static let readsPerTurn = 8

    /// nil: no inotify, files are read in intervals.
    let loop: EventLoop?
    private let state = Guarded(State())
    /// Looks at files once a minute. It checks the queue.
    private var slowChecks: SlowChecks?
    private var watch: EventLoop.Watch?
    private lazy var usesDeadline = Deadline(of: self)
    /// A deadline does not retain its owner.
    private var waitingForUses: FileChangeMonitor?

    /// Reads files in intervals. For few files, and for tests that pass a loop's time.
    package override init() {
        loop = nil
        super.init()
    }

    /// Does nothing yet: the first watched file makes the inotify instance.
    ///
    /// - Parameter loop: reads the events. It holds this from the first file on until it stops.
    package init(on loop: EventLoop) {
        self.loop = loop
        super.init()
    }

    // MARK: Watches

    /// Adds a watch, which is held until `remove`. From anywhere.
    func add(_ watch: FileWatch, of path: String) -> WatchedFiles.ID {
        state.withLock { $0.files.add(watch, of: path) }
    }

    /// From anywhere.
    func remove(_ watch: FileWatch, of id: WatchedFiles.ID) {
        state.withLock { state in Self.unwatch(state.files.remove(watch, of: id), &state) }
    }

    /// A login has used another content of the file than the login before. Watches that have reported another one read it, within the time
    /// of an interval. From anywhere.
    func noteUse(of path: String) {
        // Without inotify the next interval's read does it.
        guard let loop else { return }
        let isFirst = state.withLock { state in
            guard let id = state.files.file(at: path) else { return false }
            defer { state.usedFiles.insert(id) }
            return state.usedFiles.isEmpty
        }
        guard isFirst else { return }
        loop.post { [self] in
            waitingForUses = self
            loop.set(usesDeadline, at: loop.now + FileWatch.interval)
        }
    }

    package override func due(_ deadline: Deadline) {
        loop?.assertIsCurrent()
        waitingForUses = nil
        var watches: [FileWatch] = []
        state.withLock { state in
            for id in state.usedFiles { state.files.forEachWatch(of: id) { watches.append($0) } }
            state.usedFiles = []
        }
        for group in Dictionary(grouping: watches, by: { ObjectIdentifier($0.loop) }).values {
            group[0].loop.post { for watch in group { watch.handleUse() } }
        }
    }

    /// Folders that are watched, for all files together. From anywhere.
    var folderCount: Int { state.withLock(\.files.folderCount) }

    /// Files that are read in intervals. From anywhere.
    var polledCount: Int { state.withLock(\.files.polledCount) }

    /// Within the lock: a folder that another thread begins to watch is not given up in between.
    private static func unwatch(_ folders: [Int32], _ state: inout State) {
        for folder in folders { state.inotify?.unwatch(folder) }
    }

    // MARK: Reads

    /// How long after a read the next one is due; nil: changes are noticed. From anywhere.
    ///
    /// - Parameter canRecover: the read failed for a reason that may end without a change of the file.
    func interval(of id: WatchedFiles.ID, canRecover: Bool) -> Duration? {
        state.withLock { state in
            guard canRecover || state.files.isPolled(id) else { return nil }
            return Self.interval(polledCount: state.files.polledCount)
        }
    }

    /// Between two reads of each of so many files whose changes are not noticed.
    package static func interval(polledCount: Int) -> Duration {
        max(FileWatch.interval, Duration.seconds(1) * polledCount / ReadPace.perSecond)
    }

    /// When a file whose interval has ended is read: `now`, or later. Watches of one file are read together. From anywhere.
    func readSlot(of id: WatchedFiles.ID, at now: Instant) -> Instant {
        state.withLock { state in
            let planned = state.files.plannedRead(of: id)
            if planned >= now, planned <= now + FileWatch.interval { return planned }
            let slot = state.pace.slot(at: now)
            state.files.planRead(of: id, at: slot)
            return slot
        }
    }

    // MARK: Walks

    /// One that has begun.
    private struct Walk {
        let id: WatchedFiles.ID
        /// As `WatchedFiles.beginWalk` said.
        let questions: UInt64
        let inotify: Result<Inotify, FileNoticeError>
    }

    /// What was watched for one lookup.
    private enum Dependence {
        /// The obstacle: not all changes of the name are noticed.
        case name(WatchedFiles.Name, FileNoticeError?)
        case none(FileNoticeError)
        /// The folder has gone during the walk. The event of its own name leads to another walk.
        case changed
    }

    /// A read of this file begins. Watches the names that lead to it first: a change of one during the read is an event. Walks along them
    /// only if the file has a watch and its way may have changed. Blocks as long as the file systems do. From any thread but a loop's.
    func watchNames(of path: String) {
        guard loop != nil else { return }
        let begun = state.withLock { state -> Walk? in
            guard let id = state.files.file(at: path) else { return nil }
            state.files.beginRead(id)
            guard let questions = state.files.beginWalk(id) else { return nil }
            return Walk(id: id, questions: questions, inotify: instance(&state))
        }
        guard let begun else { return }
        if case .success = begun.inotify, PathWalk.isNoLink(path), endWalkByKnownWay(begun.id) {
            // It may have become a link before the file depended on its name.
            if PathWalk.isNoLink(path) { return }
            state.withLock { $0.files.requireWalk(begun.id) }
            return watchNames(of: path)
        }
        var names: [WatchedFiles.Name] = []
        var obstacle: FileNoticeError?
        // Lookups of a last name: a second one is behind a link.
        var lastLookups = 0
        // The latest lookup was that of the file's own name.
        var isDirect = false
        switch begun.inotify {
        case .failure(let failure): obstacle = failure
        case .success(let inotify):
            PathWalk.follow(path) { lookup in
                if lookup.isLast { lastLookups += 1 }
                isDirect = false
                switch addDependence(of: begun.id, on: lookup, by: inotify) {
                case .name(let name, let found):
                    names.append(name)
                    isDirect = lookup.isLast && lastLookups == 1
                    obstacle = obstacle ?? found
                    return true
                case .none(let found):
                    obstacle = found
                    return false
                case .changed: return false
                }
            }
        }
        endWalk(begun, names, obstacle, isDirect: isDirect)
    }

    /// The files of one folder share the way to it: an event on that way is in the queue still, or has made it be forgotten.
    private func endWalkByKnownWay(_ id: WatchedFiles.ID) -> Bool {
        state.withLock { state in
            guard let unused = state.files.endWalkByKnownWay(id) else { return false }
            Self.unwatch(unused, &state)
            return true
        }
    }

    private func endWalk(
        _ walk: Walk, _ names: [WatchedFiles.Name], _ obstacle: FileNoticeError?, isDirect: Bool
    ) {
        let id = walk.id
        let isShortage = obstacle?.isShortage == true
        let logs = state.withLock { state in
            if isDirect, !isShortage { state.files.keepWay(of: id, names, obstacle, since: walk.questions) }
            // What is missing may be had at the next read.
            let unused = state.files.endWalk(id, names, isPolled: obstacle != nil, repeats: isShortage)
            Self.unwatch(unused, &state)
            defer { if isShortage { state.hasLogged = true } }
            return isShortage && !state.hasLogged
        }
        guard logs, let obstacle else { return }
        Logger(label: "lanyard.files").warning(
            "changes of files are not noticed at once: files are read in intervals",
            metadata: ["event": "file.watch.unavailable", "reason": .string(obstacle.message)])
    }

    /// The instance, made at the first use, and after a failure when it is time.
    private func instance(_ state: inout State) -> Result<Inotify, FileNoticeError> {
        if let inotify = state.inotify { return .success(inotify) }
        if let failure = state.failure, Instant.now < failure.until { return .failure(failure.obstacle) }
        do throws(FileNoticeError) {
            let inotify = try Inotify()
            state.inotify = inotify
            loop?.post { [self] in begin(inotify) }
            return .success(inotify)
        } catch {
            state.failure = (error, .now + Self.retryDelay)
            return .failure(error)
        }
    }

    /// Watches the folder of a lookup, and notes that the file depends on the name.
    private func addDependence(
        of id: WatchedFiles.ID, on lookup: PathWalk.Lookup, by inotify: Inotify
    ) -> Dependence {
        while true {
            let givenUpCount = state.withLock(\.files.givenUpCount)
            let folder = inotify.watch(lookup.folder, content: lookup.isLast)
            if folder < 0 {
                let hasChanged = [ENOENT, ENOTDIR].contains(-folder)
                return hasChanged ? .changed : .none(FileNoticeError(refusal: -folder, lookup))
            }
            let known = state.withLock { $0.files.obstacle(inFolder: folder) }
            let obstacle = known ?? FileNoticeError.ofFileSystem(at: lookup.folder)
            let name = WatchedFiles.Name(lookup.name, in: folder)
            let isAdded = state.withLock { state in
                // The kernel may have given the number of a watch that was then removed.
                guard state.files.obstacle(inFolder: folder) != nil || state.files.givenUpCount == givenUpCount else {
                    return false
                }
                state.files.addDependence(of: id, on: name, obstacle)
                return true
            }
            if isAdded { return .name(name, obstacle) }
        }
    }

    // MARK: Events

    private func begin(_ inotify: Inotify) {
        guard let loop else { return }
        loop.assertIsCurrent()
        do throws(SystemError) {
            watch = try loop.watch(inotify.descriptor.raw, for: .read, by: self)
            let slowChecks = SlowChecks(of: self, on: loop)
            self.slowChecks = slowChecks
            slowChecks.begin()
        } catch {
            // The next reads walk anew: with another instance, or they are repeated in intervals.
            let reads = state.withLock { state in
                var reads = PlannedReads()
                state.inotify = nil
                state.files.forgetWays()
                state.failure = (.noInstance(ENOMEM), .now + Self.retryDelay)
                for id in state.files.all {
                    Self.planRead(of: id, at: .ofMachine, isOne: false, walks: true, &state, &reads)
                }
                return reads
            }
            reads.begin()
        }
    }

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        loop?.assertIsCurrent()
        readEvents()
    }

    package override func resume() {
        loop?.assertIsCurrent()
        readEvents()
    }

    private func readEvents() {
        guard let inotify = state.withLock(\.inotify) else { return }
        for _ in 0..<Self.readsPerTurn {
            var reads = PlannedReads()
            let hasRead = withUnsafeTemporaryAllocation(byteCount: Self.roomBytes, alignment: 8) { room in
                state.withLock { state in
                    inotify.read(into: room) { Self.handle($0, at: .ofMachine, &state, &reads) }
                }
            }
            guard hasRead else { return }
            reads.begin()
        }
        loop?.resumeLater(self)
    }

    private static func handle(
        _ event: Inotify.Event, at now: Instant, _ state: inout State, _ reads: inout PlannedReads
    ) {
        if event.change.contains(.overflow) {
            state.files.forgetWays()
            for id in state.files.all { planRead(of: id, at: now, isOne: false, walks: true, &state, &reads) }
        } else if event.change.contains(.unmount) {
            state.files.forgetWays()
            for id in state.files.dependents(onFolder: event.folder) {
                planRead(of: id, at: now, isOne: false, walks: true, &state, &reads)
            }
        } else if !event.name.isEmpty {
            // When a file is written in place, the names lead to it as before.
            let walks = event.change.isDisjoint(with: .content)
            let name = WatchedFiles.Name(event.name, in: event.folder)
            if walks { state.files.forgetWays(by: name) }
            let dependents = state.files.dependents(on: name)
            let isOne = dependents.count <= fewFilesMax
            dependents.forEach { planRead(of: $0, at: now, isOne: isOne, walks: walks, &state, &reads) }
        }
    }

    /// - Parameter isOne: the event is of this file and few others.
    private static func planRead(
        of id: WatchedFiles.ID, at now: Instant, isOne: Bool, walks: Bool, _ state: inout State,
        _ reads: inout PlannedReads
    ) {
        if walks { state.files.requireWalk(id) }
        let planned = state.files.plannedRead(of: id)
        // A read that is to come finds this change too.
        guard !state.files.isReadDue(of: id, after: now) || isOne && planned > now + eventInterval else { return }
        let slot = isOne ? max(state.eventPace.slot(at: now), planned + eventInterval) : state.pace.slot(at: now)
        state.files.planRead(of: id, at: slot)
        state.files.forEachWatch(of: id) { reads.append($0, at: slot) }
    }

    // MARK: Slow checks

    /// Files whose changes are noticed, of which each is looked at once a minute. From anywhere.
    var filesOfSlowChecks: [WatchedFiles.ID] { state.withLock { $0.files.all } }

    /// A watch of each of these files, unless the file is read in intervals. From anywhere.
    func watches(of ids: some Sequence<WatchedFiles.ID>) -> [FileWatch] {
        state.withLock { state in
            ids.compactMap { state.files.isPolled($0) ? nil : state.files.anyWatch(of: $0) }
        }
    }

    /// A slow check has found another file at the path than before, without an event. From anywhere.
    func handleUnnoticedChange(at path: String) {
        let reads = state.withLock { state in
            var reads = PlannedReads()
            state.files.forgetWays()
            if let id = state.files.file(at: path) {
                Self.planRead(of: id, at: .ofMachine, isOne: false, walks: true, &state, &reads)
            }
            return reads
        }
        reads.begin()
    }
}
