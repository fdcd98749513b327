import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

/// Keeps the capability of each listener as its file says (`capability_file`, http-rules.md 4.4).
///
/// A capability that cannot be read, or that is too short or too long to be sent in a field, admits no caller. The previous one is not
/// kept: the operator may have replaced it after a leak. All state belongs to the loop's queue.
final class CapabilityWatches: Sendable {
    private let path: RequestPath
    private let files: FileReader
    private let loop: EventLoop
    private let log: Logger
    /// One for each listener; nil: it asks for none.
    private let watches: Guarded<[FileWatch?]>

    /// Reads nothing and starts nothing yet.
    ///
    /// - Parameter path: gets each capability as soon as it is read.
    init(_ listeners: [ListenerSettings], for path: RequestPath, by files: FileReader, on loop: EventLoop, log: Logger)
    {
        self.path = path
        self.files = files
        self.loop = loop
        self.log = log
        watches = Guarded([])
        let made = listeners.enumerated().map { makeWatch($1, $0) }
        watches.withLock { $0 = made }
    }

    private func makeWatch(_ listener: ListenerSettings, _ index: Int) -> FileWatch? {
        guard let file = listener.capabilityFile else { return nil }
        let address = "\(listener.address)"
        return FileWatch(file, by: files, on: loop) { [path, log] outcome in
            switch Self.check(outcome) {
            case .success(let secret): path.setCapability(secret, ofListener: index)
            case .failure(let error):
                path.setCapability(nil, ofListener: index)
                log.error(
                    "the capability of a listener cannot be used: every request there is refused",
                    metadata: [
                        "event": "listener.capability.failed", "address": .string(address),
                        "reason": .string(error.message(path: file)),
                    ])
            }
        }
    }

    /// Watches the files of these listeners from here on. A new watch reports the present content first.
    ///
    /// - Parameter changed: the capabilities of listeners that have another file than before. They are in use already.
    func apply(_ listeners: [ListenerSettings], _ changed: [Int: Secret?]) {
        var watches = watches.withLock { $0 }
        for (index, secret) in changed {
            watches[index]?.stop()
            // The former watch may have had a change to report before it was stopped.
            loop.post { [path] in path.setCapability(secret, ofListener: index) }
            watches[index] = makeWatch(listeners[index], index)
            watches[index]?.start()
        }
        self.watches.withLock { [watches] in $0 = watches }
    }

    /// The capabilities of listeners that have another file than before, by listener; nil: it asks for none any more.
    ///
    /// - Throws: a file that cannot be used, with the remedy.
    static func read(
        _ listeners: [ListenerSettings], changedFrom former: [ListenerSettings]
    ) throws(RequestPathFiles.ReadError) -> [Int: Secret?] {
        var changed: [Int: Secret?] = [:]
        for (index, listener) in listeners.enumerated() {
            let formerFile = index < former.count ? former[index].capabilityFile : nil
            guard listener.capabilityFile != formerFile else { continue }
            guard let file = listener.capabilityFile else {
                changed.updateValue(nil, forKey: index)
                continue
            }
            do throws(SecretFile.ReadError) {
                changed.updateValue(try check(.success(SecretFile.read(file))).get(), forKey: index)
            } catch {
                throw .init(message: "listeners[\(index)].capability_file: \(error.message(path: file))")
            }
        }
        return changed
    }

    /// The capabilities as they are now, one for each listener. At the start, before the first thread: listeners must not refuse callers
    /// only because a file has not been read yet.
    static func read(_ listeners: [ListenerSettings]) -> [Secret?] {
        listeners.map { listener in
            guard let path = listener.capabilityFile else { return nil }
            let outcome = Result { () throws(SecretFile.ReadError) in try SecretFile.read(path) }
            return try? check(outcome).get()
        }
    }

    func start() { for watch in watches.withLock({ $0 }) { watch?.start() } }

    func stop() { for watch in watches.withLock({ $0 }) { watch?.stop() } }

    private static func check(_ outcome: FileWatch.Outcome) -> Result<Secret, SecretFile.ReadError> {
        outcome.flatMap { content in
            switch content.secret.count {
            case ..<ListenerSettings.capabilityLengthMin:
                .failure(
                    .unfit(
                        "holds fewer than \(ListenerSettings.capabilityLengthMin) characters, which could be guessed"))
            case (ListenerSettings.capabilityLengthMax + 1)...:
                .failure(.unfit("holds more than \(ListenerSettings.capabilityLengthMax) characters"))
            case _ where !content.secret.isFieldValue:
                .failure(
                    .unfit("holds a blank or a byte that no field value has; openssl rand -hex 32 makes a good one"))
            default: .success(content.secret)
            }
        }
    }
}

extension Secret {
    /// Visible ASCII only: what can be sent as a field's value and is taken unchanged by every reader.
    fileprivate var isFieldValue: Bool { withBytes { $0.allSatisfy { (0x21...0x7e).contains($0) } } }
}
