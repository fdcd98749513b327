import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// `PATH.used`: what the sealed file cannot take while the disk is full (docs/reference/store.md). All but the reading is done under the
/// lock.
extension StoreFile {
    /// A file that is none of ours counts as none: it is replaced when there is room.
    func readMarks() {
        let known = marks.entry
        (marks.entry, marks.live) = (nil, [])
        let began = WallTime.ofMachine
        let found = try? disk.read(path.used, bytesMax: UsedMarks.bytesMax, headByteCount: 0) { entry, _ in
            known != nil && entry == known ? entry.size : 0
        }
        guard let found, found.entry.kind == .file, found.entry.owner == disk.owner, found.entry.mode & 0o077 == 0,
            let bytes = found.bytes
        else { return marks.file = UsedMarks() }
        // Ten thousand first logins make the file longer again and again, and none of them reads all of it each time.
        if found.entry.version?.isPast(at: began) == true { marks.entry = found.entry }
        if found.offset == 0 { marks.file = UsedMarks(bytes) }
    }

    /// Makes the file, or a longer one, while there is room. Without room nothing is lost yet: a mark that is needed then says so.
    func reserveMarks() {
        let wanted = min(UsedMarks.wantedByteCount(users: contents.users.count), UsedMarks.bytesMax)
        let present = marks.file.bytes.count
        guard present < wanted else { return }
        // A quarter more each time: many first logins do not each write a longer file.
        let longer = marks.file.padded(to: min(max(wanted, present + present / 4), UsedMarks.bytesMax))
        do throws(DiskError) {
            try put(longer.bytes, as: path.used)
            try disk.syncFolder()
            marks.file = longer
        } catch {}
    }

    /// The contents with what the marks say.
    func markedContents() -> StoreContents {
        guard !marks.file.isBlank else { return contents }
        var marked = contents
        _ = marks.file.apply(to: &marked)
        return marked
    }

    /// Makes the contents say what the marks say.
    func applyMarks() -> StoreDelta { marks.file.isBlank ? StoreDelta() : marks.file.apply(to: &contents) }

    /// Which marks are those of stored tokens, and of stored users' credentials.
    func findLiveMarks() { marks.live = marks.file.isBlank ? [] : marks.file.livePlaces(in: contents) }

    /// The sealed file could not take these changes. What it would say of refresh tokens that work only once is said here.
    func mark(_ changes: [StoreChange]) {
        for change in changes {
            switch change {
            // A last try is not made without the store.
            case .storeIntent(let user, _, let intent, _, _, let token?, isLastTry: false):
                // The sealed file may hold the token before this one, and must not have that sent either.
                let stored = contents[user]?.session?.refresh
                for token in [stored, token == stored ? nil : token].compactMap(\.self) {
                    write(
                        UsedMarks.Mark(tries: intent.tries, at: intent.at), hash(of: token), of: user,
                        isStored: token == stored)
                }
            case .clearIntent: settleMark(by: change)
            case .saveSession(let user, let login, _):
                settleMark(by: change)
                if let refused = login.refused { mark(refused, of: user) }
            case .recordRefusal(let user, _, let spent, _): mark(spent, of: user)
            case .storeIntent, .dropRefreshToken, .end, .logOut, .beginDeletion, .cancelDeletion, .remove, .activate,
                .addRevocation, .removeRevocation, .saveMetadata:
                break
            }
        }
    }

    /// The change says that a call with a refresh token has had its response: the token's mark has one call less, or none is open.
    /// Whether the sealed file holds the token does not matter, nor whether it took the change. The mark of a token before it stays.
    func settleMark(by change: StoreChange) {
        switch change {
        // A login has sent none: the marks of refresh tokens stay.
        case .clearIntent(_, _, isOfLogin: true): return
        case .clearIntent(let user, let sent, isOfLogin: false):
            let stored = contents[user]?.session?.refresh
            guard let token = sent?.token ?? stored, let mark = mark(of: token) else { return }
            write(
                UsedMarks.Mark(tries: min(mark.tries, sent?.openCalls ?? mark.tries - 1), at: mark.at),
                hash(of: token), of: user, isStored: token == stored)
        case .saveSession(let user, let login, _):
            guard !login.hasOpenCall, let token = login.session.refresh, let mark = mark(of: token) else {
                return
            }
            write(
                UsedMarks.Mark(tries: 0, at: mark.at), hash(of: token), of: user,
                isStored: token == contents[user]?.session?.refresh)
        case .storeIntent, .recordRefusal, .dropRefreshToken, .end, .logOut, .beginDeletion, .cancelDeletion, .remove,
            .activate, .addRevocation, .removeRevocation, .saveMetadata:
            return
        }
    }

    private func mark(of token: Secret) -> UsedMarks.Mark? {
        marks.file.place(of: hash(of: token)).map { marks.file.mark(at: $0) }
    }

    /// A configured credential that works for one login has served.
    private func mark(_ credential: CredentialFingerprint, of user: String) {
        guard credential.isSpent, contents[user]?.refused != credential else { return }
        guard contents[user] != nil else {
            return reportUnmarked(
                user,
                StoreError(.system(ENOSPC), message: "\(path.path) does not have the user yet, so no mark can name it"))
        }
        let hash = UsedMarks.hash(ofCredentialOf: user, key: contents.fingerprintKey)
        write(UsedMarks.Mark(tries: 0, at: .now, credential: credential.bytes), hash, of: user, isStored: true)
    }

    private func hash(of token: Secret) -> [UInt8] {
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
    func settleMarks() {
        for place in marks.live.sorted() { try? overwriteMark(at: place, with: UsedMarks.blankRecord) }
        marks.live = []
        hasReportedUnmarked = false
        reserveMarks()
    }
}
