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
        let listener: Int
        let address: String
        let path: String
    }

    private let capabilities: [Capability]
    private let watches: [FileWatch]

    /// Reads nothing and starts nothing yet.
    ///
    /// - Parameter path: gets each capability as soon as it is read.
    init(_ listeners: [ListenerSettings], for path: RequestPath, by files: FileReader, on loop: EventLoop, log: Logger)
    {
        capabilities = listeners.enumerated().compactMap { index, listener in
            listener.capabilityFile.map { Capability(listener: index, address: "\(listener.address)", path: $0) }
        }
        watches = capabilities.map { capability in
            FileWatch(capability.path, by: files, on: loop) { outcome in
                switch Self.check(outcome) {
                case .success(let secret): path.setCapability(secret, ofListener: capability.listener)
                case .failure(let error):
                    path.setCapability(nil, ofListener: capability.listener)
                    log.error(
                        "the capability of a listener cannot be used: every request there is refused",
                        metadata: [
                            "event": "listener.capability.failed", "address": .string(capability.address),
                            "reason": .string(error.message(path: capability.path)),
                        ])
                }
            }
        }
    }

    /// The capabilities as they are now, one for each listener. For the time before the first thread: listeners must not refuse callers
    /// only because a file has not been read yet.
    static func read(_ listeners: [ListenerSettings]) -> [Secret?] {
        listeners.map { listener in
            guard let path = listener.capabilityFile else { return nil }
            let outcome = Result { () throws(SecretFile.ReadError) in try SecretFile.read(path) }
            return try? check(outcome).get()
        }
    }

    func start() { for watch in watches { watch.start() } }

    func stop() { for watch in watches { watch.stop() } }

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
