/// Watches the secret file of one configured login (protocol `CredentialWatch`).
package final class CredentialFileWatch: CredentialWatch {
    private let loop: EventLoop
    /// Belongs to the loop's queue.
    private nonisolated(unsafe) var watch: FileWatch?
    private nonisolated(unsafe) var isFirst = true

    /// Does nothing yet.
    package init(on loop: EventLoop) { self.loop = loop }

    package func start(_ login: UserSettings.Login, _ onChange: @escaping @Sendable () -> Void) {
        guard let path = Self.file(of: login) else { return }
        loop.post { [self] in
            guard watch == nil else { return }
            // The first outcome is the state that the user's first login meets.
            let watch = FileWatch(path, on: loop) { [weak self] _ in
                guard let self else { return }
                if !isFirst { onChange() }
                isFirst = false
            }
            self.watch = watch
            watch.start()
        }
    }

    package func stop() {
        loop.post { [self] in watch?.stop() }
    }

    deinit { watch?.stop() }

    private static func file(of login: UserSettings.Login) -> String? {
        switch login {
        case .anonymous: nil
        case .emailPassword(_, let file), .apiKey(let file): file
        }
    }
}
