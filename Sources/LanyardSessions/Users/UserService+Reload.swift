import LanyardFoundations

/// The users of a new configuration.
extension UserService {
    /// Takes the users, and logs those whose session stays in the store without a user.
    func apply(_ reload: UserReload) -> [UserReload.Step] {
        environment.loop.assertIsCurrent()
        let steps = registry.apply(reload)
        for step in steps {
            if case .retire(let user) = step, let stored = reload.stored[user.name] { logUnknown(stored) }
        }
        return steps
    }
}
