import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

/// A capability, as its file was read.
struct ListenerCapability: Sendable {
    /// nil: the file cannot be used, and no caller is admitted.
    var secret: Secret?
    /// The file held that then or later.
    var readAt: Instant
}

/// Keeps the capability of each listener, and of each row of a broker's callers, as its file says (`capability_file`, http-requests.md
/// 4.4, fleet.md 1).
///
/// A capability that cannot be read, or that is too short or too long to be sent in a field, admits no caller. The previous one is not
/// kept: the operator may have replaced it after a leak.
final class CapabilityWatches: Sendable {
    private let path: RequestPath
    private let publication: FilePublication
    private let files: FileReader
    private let loop: EventLoop
    private let log: Logger
    /// One for each place; nil: none is asked for there.
    private let watches: Guarded<[CapabilityWatch?]>

    /// Reads nothing and starts nothing yet.
    ///
    /// - Parameter path: gets each capability as soon as it is read.
    init(
        _ places: [CapabilityPlace], for path: RequestPath, by publication: FilePublication,
        reading files: FileReader,
        on loop: EventLoop, log: Logger
    ) {
        (self.path, self.publication, self.files, self.loop, self.log) = (path, publication, files, loop, log)
        watches = Guarded([])
        let made = places.enumerated().map { makeWatch($1, $0, nil) }
        watches.withLock { $0 = made }
    }

    private func makeWatch(
        _ place: CapabilityPlace, _ index: Int, _ capability: ListenerCapability?
    ) -> CapabilityWatch? {
        place.file.map {
            CapabilityWatch($0, of: index, at: place.shown, capability, for: path, by: publication, log: log)
        }
    }

    /// What was read of places that have another file than before, with what their files' watches have found later.
    func renewed(_ changed: [Int: ListenerCapability?], _ places: [CapabilityPlace]) -> [Int: ListenerCapability?] {
        let watches = watches.withLock { $0 }
        return Dictionary(
            uniqueKeysWithValues: changed.map { index, read in
                let file = index < places.count ? places[index].file : nil
                let found = watches.compactMap { $0?.file == file ? $0?.inUse : nil }
                return (index, read.map { read in found.reduce(read) { $1.readAt > $0.readAt ? $1 : $0 } })
            })
    }

    /// Watches the files of these places from here on. A new watch reports the present content first. In the turn that hands
    /// the capabilities over.
    ///
    /// - Parameter changed: the capabilities of places that have another file than before, or are gone.
    func follow(
        _ places: [CapabilityPlace], _ changed: [Int: ListenerCapability?], in turn: borrowing FilePublication.Turn
    ) {
        var watches = watches.withLock { $0 }
        while watches.count < places.count { watches.append(nil) }
        for (index, capability) in changed {
            watches[index]?.end(in: turn)
            watches[index] = index < places.count ? makeWatch(places[index], index, capability) : nil
            watches[index]?.start(by: files, on: loop)
        }
        self.watches.withLock { [watches] in $0 = watches }
    }

    /// The capabilities of places that have another file than before; nil: none is asked for there any more.
    ///
    /// - Throws: a file that cannot be used, with the remedy.
    static func read(
        _ places: [CapabilityPlace], changedFrom former: [CapabilityPlace]
    ) throws(ConfiguredFileError) -> [Int: ListenerCapability?] {
        var changed: [Int: ListenerCapability?] = [:]
        for index in 0..<max(places.count, former.count) {
            let formerFile = index < former.count ? former[index].file : nil
            let place = index < places.count ? places[index] : nil
            guard place?.file != formerFile else { continue }
            guard let place, let file = place.file else {
                changed.updateValue(nil, forKey: index)
                continue
            }
            do throws(SecretFile.ReadError) {
                let content = try SecretFile.read(file)
                let secret = try CapabilityWatch.check(.success(content)).get()
                changed.updateValue(ListenerCapability(secret: secret, readAt: content.readAt), forKey: index)
            } catch {
                throw .init(place.owner, path: file, error.message(path: file))
            }
        }
        return changed
    }

    /// The capabilities of all places that ask for one. At the start, before the first thread: listeners must not refuse callers only
    /// because a file has not been read yet.
    static func readAtStart(_ places: [CapabilityPlace]) -> [Int: ListenerCapability?] {
        var found: [Int: ListenerCapability?] = [:]
        for (index, place) in places.enumerated() {
            guard let file = place.file else { continue }
            let content = Result { () throws(SecretFile.ReadError) in try SecretFile.read(file) }
            let secret = try? CapabilityWatch.check(content).get()
            let readAt = (try? content.get())?.readAt ?? .past
            found.updateValue(ListenerCapability(secret: secret, readAt: readAt), forKey: index)
        }
        return found
    }

    func start() { for watch in watches.withLock({ $0 }) { watch?.start(by: files, on: loop) } }

    func stop() { for watch in watches.withLock({ $0 }) { watch?.stop() } }
}

/// The capability file of one place in one configuration, until a reload ends it.
private final class CapabilityWatch: Sendable {
    private struct Published {
        /// What is in use; nil: nothing was read here yet.
        var capability: ListenerCapability?
        /// Another watch, or none, has its place. Changed in a turn of the publication.
        var isEnded = false
    }

    let file: String
    private let index: Int
    private let address: String
    private let path: RequestPath
    private let publication: FilePublication
    private let log: Logger
    private let published: Guarded<Published>
    private let watch = Guarded<FileWatch?>(nil)

    /// - Parameter capability: as it was read before. It is in use; nil: it was not read here.
    init(
        _ file: String, of index: Int, at address: String, _ capability: ListenerCapability?, for path: RequestPath,
        by publication: FilePublication, log: Logger
    ) {
        (self.file, self.index, self.address) = (file, index, address)
        (self.path, self.publication, self.log) = (path, publication, log)
        published = Guarded(Published(capability: capability))
    }

    /// What is in use, with the time when the file held it. From any thread.
    var inUse: ListenerCapability? { published.withLock(\.capability) }

    /// Begins to watch. Call once.
    func start(by files: FileReader, on loop: EventLoop) {
        let watch = FileWatch(
            file, by: files, on: loop,
            confirm: { [weak self] instant in
                self?.published.withLock { published in
                    if let known = published.capability?.readAt { published.capability?.readAt = max(known, instant) }
                }
            }
        ) { [weak self] in self?.publish($0) }
        self.watch.withLock { $0 = watch }
        watch.start()
    }

    func stop() { watch.withLock { $0 }?.stop() }

    /// Publishes nothing from here on.
    func end(in _: borrowing FilePublication.Turn) {
        published.withLock { $0.isEnded = true }
        stop()
    }

    private func publish(_ outcome: FileWatch.Outcome) {
        publication.turn { _ in
            guard !published.withLock(\.isEnded) else { return }
            let checked = Self.check(outcome)
            let secret = try? checked.get()
            // The time of the read is confirmed after this.
            let readAt = (try? outcome.get())?.readAt ?? .past
            published.withLock { $0.capability = ListenerCapability(secret: secret, readAt: readAt) }
            path.setCapability(secret, ofListener: index)
            guard case .failure(let error) = checked else { return }
            log.error(
                "a capability cannot be used: every request that needs it is refused",
                metadata: [
                    "event": "listener.capability.failed", "address": .string(address),
                    "reason": .string(error.message(path: file)),
                ])
        }
    }

    static func check(_ outcome: FileWatch.Outcome) -> Result<Secret, SecretFile.ReadError> {
        outcome.flatMap { content in
            let secret = SecretText.token(in: content.secret)
            return FieldSecret.error(of: secret).map { .failure($0) } ?? .success(secret)
        }
    }
}
