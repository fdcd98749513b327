import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

/// Keeps the capability of each listener as its file says (`capability_file`, http-rules.md 4.4).
///
/// A capability that cannot be read, or that is too short or too long to be sent in a field, admits no caller. The previous one is not
/// kept: the operator may have replaced it after a leak. All state belongs to the loop's queue.
final class CapabilityWatches: Sendable {
    private struct Capability {
        let path: String
        let watch: FileWatch
    }

    private let path: RequestPath
    private let files: FileReader
    private let loop: EventLoop
    private let log: Logger
    /// One for each listener; nil: it asks for none.
    private let capabilities: Guarded<[Capability?]>

    /// Reads nothing and starts nothing yet.
    ///
    /// - Parameter path: gets each capability as soon as it is read.
    init(_ listeners: [ListenerSettings], for path: RequestPath, by files: FileReader, on loop: EventLoop, log: Logger)
    {
        self.path = path
        self.files = files
        self.loop = loop
        self.log = log
        capabilities = Guarded([])
        let made = listeners.enumerated().map { makeCapability($1, $0) }
        capabilities.withLock { $0 = made }
    }

    private func makeCapability(_ listener: ListenerSettings, _ index: Int) -> Capability? {
        guard let file = listener.capabilityFile else { return nil }
        let address = "\(listener.address)"
        let watch = FileWatch(file, by: files, on: loop) { [path, log] outcome in
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
        return Capability(path: file, watch: watch)
    }

    /// Watches the files of these listeners from here on. A new watch reports the present content first.
    func apply(_ listeners: [ListenerSettings]) {
        let former = capabilities.withLock { $0 }
        let present = listeners.enumerated().map { index, listener -> Capability? in
            if let kept = former[index], kept.path == listener.capabilityFile { return kept }
            former[index]?.watch.stop()
            let capability = makeCapability(listener, index)
            capability?.watch.start()
            return capability
        }
        capabilities.withLock { $0 = present }
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

    func start() { for capability in capabilities.withLock({ $0 }) { capability?.watch.start() } }

    func stop() { for capability in capabilities.withLock({ $0 }) { capability?.watch.stop() } }

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
