import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The sealed file of architecture-control.md 4.7. It is read as a whole and replaced as a whole. After a crash at any moment it is the old
/// file or the new one.
///
/// A write is: lock, read, change, seal, temporary file, fsync, rename, fsync of the folder, unlock. Used by one queue at a time.
package final class StoreFile: @unchecked Sendable {
    /// Bytes of the sealed file.
    static let bytesMax = StoreText.bytesMax + 1024

    let path: StorePath
    let disk: any StoreDisk
    private var sealing: any Sealing
    /// Random; for the empty store that a missing file stands for.
    private let newFingerprintKey: Secret
    /// The file has existed. If it is missing now, it was removed.
    private var hasBeenThere = false
    /// The `writes` that are known to outlast a loss of power: another process may have died between its rename and its fsync.
    private var durable: UInt64?
    /// The `writes` that could not be synced. Another fsync would prove nothing for these: the kernel reports a loss once and then treats
    /// the lost data as written (fsync(2)).
    private var failedSync: (writes: UInt64, error: StoreError)?
    private var highestWrites: UInt64 = 0
    /// An older file has replaced one that this process has read: what another process has stored since may be lost.
    private var hasRolledBack = false
    /// `PATH.used` as it was read with the latest contents, and the places in it whose tokens are stored.
    private var marks = (file: UsedMarks(), live: Set<Int>())
    /// A refresh token could not be marked: the log has its line.
    private var hasReportedUnmarked = false
    private var logEvents: [StoreLogEvent] = []
    /// Whether the latest completed commit has replaced the file. Only that proves that writing works.
    package private(set) var hasWritten = false

    /// - Parameter fingerprintKey: 32 random bytes for a store that does not exist yet.
    package init(_ path: StorePath, on disk: any StoreDisk, sealing: any Sealing, fingerprintKey: Secret) {
        self.path = path
        self.disk = disk
        self.sealing = sealing
        newFingerprintKey = fingerprintKey
    }

    /// Why the file's contents may not outlast a loss of power; nil: they do. A later write clears it, by this process or another.
    package var unsynced: StoreError? { failedSync?.error }

    /// The log events since the last call.
    package func takeLogEvents() -> [StoreLogEvent] {
        defer { logEvents = [] }
        return logEvents
    }

    // MARK: Opening

    /// Checks whether folder and file may be trusted and the file can be opened with this key. Changes nothing.
    ///
    /// - Returns: whether there is a file.
    /// - Throws: `foreignOwner`, `unsafeMode`, `notRegular`, `wrongKey`, `damaged`, `newerVersion`, `unfit` or `.system`, each with path
    ///   and remedy for the operator.
    @discardableResult
    package func inspect() throws(StoreError) -> Bool {
        let folder = try withStoreErrors { () throws(DiskError) in try disk.inspectFolder() }
        guard folder.owner == disk.owner else { throw .foreignOwner(path.folder, folder, disk.owner) }
        guard folder.mode & 0o077 == 0 else { throw .unsafeMode(path.folder, folder, wanted: "700") }
        return try load() != nil
    }

    /// Takes `PATH.open`: `shared` to use the store, `exclusive` to change its key.
    ///
    /// - Throws: `busy` at once.
    package func lockOpenFile(_ kind: DiskLockKind) throws(StoreError) -> any DiskLock {
        guard let openFileLock = try withStoreErrors({ () throws(DiskError) in try disk.lock(path.open, kind) }) else {
            throw .busy("\(path.path).open")
        }
        return openFileLock
    }

    /// Removes a crash's leftover, creates the store if there is none, and finds out whether an existing one can be written.
    ///
    /// - Returns: the contents, and why they cannot be written now. Such a reason may pass: no room, or a disk error. An empty store that
    ///   could not be created is kept in memory until then.
    /// - Throws: `busy` while another process writes; any condition that prevents this process from ever writing there.
    package func begin() throws(StoreError) -> (contents: StoreContents, unwritten: StoreError?) {
        let lock = try acquireLock()
        defer { lock.release() }
        try removeLeftover()
        if let contents = try load() {
            try makeDurable(contents)
            let unwritten = try tryToWrite()
            if unwritten == nil { reserveMarks(for: contents) }
            return (contents, unwritten)
        }
        var contents = StoreContents(fingerprintKey: newFingerprintKey)
        do throws(StoreError) {
            try replace(with: &contents)
            logEvents.append(.created)
            reserveMarks(for: contents)
            return (contents, nil)
        } catch {
            guard case .system(let code) = error.kind, [ENOSPC, EDQUOT, EFBIG, EIO].contains(code) else { throw error }
            return (StoreContents(fingerprintKey: newFingerprintKey), error)
        }
    }

    // MARK: Reading and writing

    /// The store's present contents, written by any process. Needs no lock: the file is only ever replaced as a whole.
    ///
    /// The contents outlast a loss of power, unless `unsynced` says why not. They are returned in both cases, because a process that
    /// ignored them would send a used refresh token. Their intents have been on disk since before the calls.
    ///
    /// - Throws: what `inspect` throws about the file; `.system(ENOENT)` if the file was removed. An operator must act.
    package func read() throws(StoreError) -> StoreContents {
        let contents = try current()
        if failedSync?.writes != contents.writes { try? makeDurable(contents) }
        return contents
    }

    /// Applies the changes in order to the file's present contents. Writes once, unless nothing has changed and all is synced. When this
    /// returns, the verdicts outlast a crash. When it throws, all or none of the changes may.
    ///
    /// - Parameter tries: replaces the file although nothing has changed, to find out whether writing works. A failure of that is no
    ///   failure of this commit.
    /// - Returns: a verdict for each change. `hasWritten` says whether the file was replaced.
    /// - Throws: `busy` at once while another process writes.
    package func commit(
        _ changes: [StoreChange], now: WallTime, tries: Bool = false
    ) throws(StoreError) -> [StoreChange.Verdict] {
        var verdicts: [StoreChange.Verdict] = []
        for outcome in try commitEach(changes, now: now, tries: tries) { verdicts.append(try outcome.get()) }
        return verdicts
    }

    /// The same, but a change that gives an identity more than its share fails alone, as `shareFull`: the others are stored.
    ///
    /// - Throws: as `commit` does.
    package func commitEach(
        _ changes: [StoreChange], now: WallTime, tries: Bool = false
    ) throws(StoreError) -> [Result<StoreChange.Verdict, StoreError>] {
        hasWritten = false
        let lock = try acquireLock()
        defer { lock.release() }
        var contents = try current()
        let before = contents
        let outcomes = changes.map { change -> Result<StoreChange.Verdict, StoreError> in
            // The store cannot prove that no process has a newer token.
            if hasRolledBack, let user = change.userOfLastTry { return .success(.overtaken(by: contents[user])) }
            let former = contents
            let verdict = contents.apply(change, now: now)
            guard let identity = StoreShare.overdrawn(contents, since: former) else { return .success(verdict) }
            contents = former
            return .failure(.shareFull(path.path, identity))
        }
        // What only a mark says is not in the sealed file yet.
        let isUnwritten = !marks.live.isEmpty && outcomes.contains(where: \.isOfOwnUser)
        if contents != before || isUnwritten || failedSync?.writes == contents.writes {
            do throws(StoreError) {
                try replace(with: &contents)
            } catch {
                mark(zip(changes, outcomes).filter(\.1.isOfOwnUser).map(\.0), in: before)
                throw error
            }
            hasWritten = true
        } else {
            try makeDurable(contents)
            if tries { hasWritten = (try? replace(with: &contents)) != nil }
        }
        if hasWritten { settleMarks(with: contents) }
        for (change, outcome) in zip(changes, outcomes) where outcome.isOfOwnUser { settleMark(by: change, contents) }
        mark(zip(changes, outcomes).filter(\.1.isFailure).map(\.0), in: contents)
        return outcomes
    }

    /// Writes the same contents under another seal, by the same safe sequence. Later writes use the new seal.
    ///
    /// - Throws: `gone` if there is no file.
    package func reseal(with other: any Sealing) throws(StoreError) {
        let lock = try acquireLock()
        defer { lock.release() }
        try removeLeftover()
        guard var contents = try load() else { throw .gone(path.path) }
        let former = sealing
        sealing = other
        do throws(StoreError) {
            try replace(with: &contents)
        } catch {
            sealing = former
            throw error
        }
        settleMarks(with: contents)
    }

    // MARK: Steps

    private func acquireLock() throws(StoreError) -> any DiskLock {
        guard let lock = try withStoreErrors({ () throws(DiskError) in try disk.lock(path.lock, .exclusive) }) else {
            throw .busy("\(path.path).lock")
        }
        return lock
    }

    private func current() throws(StoreError) -> StoreContents {
        if let contents = try load() { return contents }
        guard !hasBeenThere else { throw .gone(path.path) }
        return StoreContents(fingerprintKey: newFingerprintKey)
    }

    /// nil: there is no file.
    private func load() throws(StoreError) -> StoreContents? {
        // Before the sealed file: a process that settles a mark writes that file first.
        let used = readMarks()
        let found = try withStoreErrors { () throws(DiskError) in try disk.read(path.name, bytesMax: Self.bytesMax) }
        guard let found else { return nil }
        let entry = found.entry
        guard entry.kind == .file else { throw .notRegular(path.path, entry) }
        guard entry.owner == disk.owner else { throw .foreignOwner(path.path, entry, disk.owner) }
        guard entry.mode & 0o077 == 0 else { throw .unsafeMode(path.path, entry, wanted: "600") }
        if let code = found.openError { throw StoreError(path, DiskError(code, "opening"), owner: disk.owner) }
        guard let bytes = found.bytes else { throw .damaged(path.path, "it is larger than any store") }
        var contents = try unsealed(bytes)
        marks = (used, used.apply(to: &contents))
        hasBeenThere = true
        if contents.writes < highestWrites {
            logEvents.append(.rolledBack(from: highestWrites, to: contents.writes))
            hasRolledBack = true
        }
        highestWrites = contents.writes
        return contents
    }

    private func unsealed(_ bytes: [UInt8]) throws(StoreError) -> StoreContents {
        let text: Secret
        do throws(SealingError) {
            text = try bytes.withUnsafeBytes { sealed in
                Result { () throws(SealingError) in try sealing.open(sealed) }
            }.get()
        } catch {
            throw StoreError(path.path, error)
        }
        do throws(StoreText.FormatError) {
            return try text.withBytes { bytes throws(StoreText.FormatError) in try StoreText.read(bytes) }
        } catch {
            throw StoreError(path.path, error)
        }
    }

    /// Under the lock. A failure before the rename leaves the file unchanged.
    private func replace(with contents: inout StoreContents) throws(StoreError) {
        contents.writes = contents.writes.clampedSum(1)
        let sealed = try sealed(contents)
        try withStoreErrors { () throws(DiskError) in
            try disk.remove(path.temporary)
            do throws(DiskError) {
                try writeTemporary(sealed)
                try disk.rename(path.temporary, to: path.name)
            } catch {
                // Frees the room for another attempt.
                try? disk.remove(path.temporary)
                throw error
            }
        }
        hasBeenThere = true
        highestWrites = contents.writes
        try syncFolder(contents.writes)
    }

    private func sealed(_ contents: StoreContents) throws(StoreError) -> [UInt8] {
        let text: Secret
        do throws(StoreText.FormatError) {
            text = try StoreText.write(contents)
        } catch {
            throw StoreError(path.path, error)
        }
        do throws(SealingError) {
            return try text.withBytes { bytes throws(SealingError) in try sealing.seal(bytes) }
        } catch {
            throw StoreError(path.path, error)
        }
    }

    private func writeTemporary(_ bytes: [UInt8]) throws(DiskError) {
        let draft = try disk.create(path.temporary)
        try bytes.withUnsafeBytes { all in
            Result { () throws(DiskError) in
                var rest = all
                while !rest.isEmpty {
                    rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(try draft.write(rest)))
                }
            }
        }.get()
        try draft.sync()
    }

    private func removeLeftover() throws(StoreError) {
        let found = try withStoreErrors { () throws(DiskError) in try disk.read(path.temporary, bytesMax: 0) }
        guard found != nil else { return }
        try withStoreErrors { () throws(DiskError) in try disk.remove(path.temporary) }
        logEvents.append(.leftoverRemoved)
    }

    /// Creates and removes a temporary file. Only this shows that the folder cannot be written.
    ///
    /// - Returns: why it failed, if the reason may pass.
    /// - Throws: missing permissions. An operator must grant them, and should learn that before the first session is lost.
    private func tryToWrite() throws(StoreError) -> StoreError? {
        do throws(StoreError) {
            try withStoreErrors { () throws(DiskError) in
                _ = try disk.create(path.temporary)
                try disk.remove(path.temporary)
            }
            return nil
        } catch {
            guard case .system(let code) = error.kind, ![EACCES, EPERM, EROFS].contains(code) else { throw error }
            return error
        }
    }

    /// The process that wrote the file may have died before the folder was synced.
    private func makeDurable(_ contents: StoreContents) throws(StoreError) {
        guard durable != contents.writes, hasBeenThere else { return }
        try syncFolder(contents.writes)
    }

    private func syncFolder(_ writes: UInt64) throws(StoreError) {
        do throws(StoreError) {
            try withStoreErrors { () throws(DiskError) in try disk.syncFolder() }
            (durable, failedSync) = (writes, nil)
        } catch {
            failedSync = (writes, error)
            throw error
        }
    }

    private func withStoreErrors<Value>(_ call: () throws(DiskError) -> Value) throws(StoreError) -> Value {
        do throws(DiskError) {
            return try call()
        } catch {
            throw StoreError(path, error, owner: disk.owner)
        }
    }
}

/// `PATH.used`: what the sealed file cannot take while the disk is full (docs/reference/store.md). All but the reading is done under the
/// lock.
extension StoreFile {
    /// A file that is none of ours counts as none: it is replaced when there is room.
    private func readMarks() -> UsedMarks {
        guard let found = try? disk.read(path.used, bytesMax: UsedMarks.bytesMax), found.entry.kind == .file,
            found.entry.owner == disk.owner, found.entry.mode & 0o077 == 0, let bytes = found.bytes
        else { return UsedMarks() }
        return UsedMarks(bytes)
    }

    /// Makes the file, or a longer one, while there is room. Without room nothing is lost yet: a mark that is needed then says so.
    private func reserveMarks(for contents: StoreContents) {
        let wanted = UsedMarks.wantedByteCount(users: contents.users.count)
        guard marks.file.bytes.count < wanted else { return }
        let longer = marks.file.padded(to: wanted)
        do throws(DiskError) {
            try disk.remove(path.temporary)
            do throws(DiskError) {
                try writeTemporary(longer.bytes)
                try disk.rename(path.temporary, to: path.used)
            } catch {
                try? disk.remove(path.temporary)
                throw error
            }
            try disk.syncFolder()
            marks.file = longer
        } catch {}
    }

    /// The sealed file could not take these changes. What it would say of refresh tokens that work only once is said here.
    private func mark(_ changes: [StoreChange], in contents: StoreContents) {
        for change in changes {
            switch change {
            // A last try is not made without the store.
            case .storeIntent(let user, _, let intent, _, _, let token?, isLastTry: false):
                // The sealed file may hold the token before this one, and must not have that sent either.
                let stored = contents[user]?.session?.refresh
                for token in [stored, token == stored ? nil : token].compactMap(\.self) {
                    write(
                        UsedMarks.Mark(tries: intent.tries, at: intent.at), hash(of: token, contents), of: user,
                        isStored: token == stored)
                }
            case .clearIntent: settleMark(by: change, contents)
            case .saveSession(let user, let login, _):
                settleMark(by: change, contents)
                if let refused = login.refused { mark(refused, of: user, contents) }
            case .recordRefusal(let user, _, let spent, _): mark(spent, of: user, contents)
            case .storeIntent, .dropRefreshToken, .end, .logOut, .beginDeletion, .cancelDeletion, .remove, .activate,
                .addRevocation, .removeRevocation, .saveMetadata:
                break
            }
        }
    }

    /// The change says that a call with a refresh token has had its response: the token's mark has one call less, or none is open.
    /// Whether the sealed file holds the token does not matter, nor whether it took the change. The mark of a token before it stays.
    private func settleMark(by change: StoreChange, _ contents: StoreContents) {
        switch change {
        case .clearIntent(let user, let sent):
            let stored = contents[user]?.session?.refresh
            guard let token = sent?.token ?? stored, let mark = mark(of: token, contents) else { return }
            let others = contents[user]?.intent?.kind == .login ? mark.tries : mark.tries - 1
            write(
                UsedMarks.Mark(tries: min(mark.tries, sent?.openCalls ?? others), at: mark.at),
                hash(of: token, contents), of: user, isStored: token == stored)
        case .saveSession(let user, let login, _):
            guard !login.hasOpenCall, let token = login.session.refresh, let mark = mark(of: token, contents) else {
                return
            }
            write(
                UsedMarks.Mark(tries: 0, at: mark.at), hash(of: token, contents), of: user,
                isStored: token == contents[user]?.session?.refresh)
        case .storeIntent, .recordRefusal, .dropRefreshToken, .end, .logOut, .beginDeletion, .cancelDeletion, .remove,
            .activate, .addRevocation, .removeRevocation, .saveMetadata:
            return
        }
    }

    private func mark(of token: Secret, _ contents: StoreContents) -> UsedMarks.Mark? {
        marks.file.place(of: hash(of: token, contents)).map { marks.file.mark(at: $0) }
    }

    /// A configured credential that works for one login has served.
    private func mark(_ credential: CredentialFingerprint, of user: String, _ contents: StoreContents) {
        guard credential.isSpent, contents[user]?.refused != credential else { return }
        guard contents[user] != nil else {
            return reportUnmarked(
                user,
                StoreError(.system(ENOSPC), message: "\(path.path) does not have the user yet, so no mark can name it"))
        }
        let hash = UsedMarks.hash(ofCredentialOf: user, key: contents.fingerprintKey)
        write(UsedMarks.Mark(tries: 0, at: .now, credential: credential.bytes), hash, of: user, isStored: true)
    }

    private func hash(of token: Secret, _ contents: StoreContents) -> [UInt8] {
        UsedMarks.hash(of: token, key: contents.fingerprintKey)
    }

    /// - Parameter isStored: the record's token, or the user of its credential, is in the sealed file: its place is not used for another.
    private func write(_ mark: UsedMarks.Mark, _ hash: [UInt8], of user: String, isStored: Bool) {
        let known = marks.file.place(of: hash)
        if let known, marks.file.mark(at: known) == mark { return }
        do throws(StoreError) {
            guard let place = known ?? marks.file.freePlace(besides: marks.live) else {
                throw StoreError(
                    .system(ENOSPC), message: "\(path.path).used has no place; it is made when there is room for it")
            }
            let record = mark.isBlank ? UsedMarks.blankRecord : UsedMarks.record(hash, mark)
            try overwriteMark(at: place, with: record)
            if isStored { marks.live.insert(place) }
            if known == nil, !mark.isBlank {
                logEvents.append(.useMarked(user: user, isCredential: mark.credential != nil))
            }
            hasReportedUnmarked = false
        } catch {
            // A mark that could not be removed costs a login at most.
            if !mark.isBlank { reportUnmarked(user, error) }
        }
    }

    private func reportUnmarked(_ user: String, _ error: StoreError) {
        guard !hasReportedUnmarked else { return }
        hasReportedUnmarked = true
        logEvents.append(.useUnmarked(user: user, error))
    }

    private func overwriteMark(at place: Int, with record: [UInt8]) throws(StoreError) {
        try withStoreErrors { () throws(DiskError) in
            try disk.overwrite(path.used, at: place * UsedMarks.recordByteCount, with: record)
        }
        marks.file.replace(at: place, with: record)
    }

    /// The sealed file has been written, with what the marks said: those of its tokens are not needed any more.
    private func settleMarks(with contents: StoreContents) {
        for place in marks.live.sorted() { try? overwriteMark(at: place, with: UsedMarks.blankRecord) }
        marks.live = []
        hasReportedUnmarked = false
        reserveMarks(for: contents)
    }
}

extension StoreChange {
    /// The user whose refresh token is about to be sent once more after an unknown outcome; nil: the change is another one.
    fileprivate var userOfLastTry: String? {
        if case .storeIntent(let user, _, _, _, _, _, isLastTry: true) = self { user } else { nil }
    }
}

extension Result<StoreChange.Verdict, StoreError> {
    /// The change is more than its identity's share.
    fileprivate var isFailure: Bool { if case .failure = self { true } else { false } }

    /// The change was to be stored: no other process has changed its user.
    fileprivate var isOfOwnUser: Bool {
        switch self {
        case .success(.stored), .success(.storedEnding), .failure: true
        case .success(.overtaken), .success(.inUse): false
        }
    }
}
