/// The exit status of a program that needs the store and cannot open it.
extension StoreError {
    /// 78 (configuration) if an operator must act, 75 (temporary failure) if another process holds the store.
    package var exitCode: Int32 { kind == .busy ? 75 : 78 }

    /// One word for the log's `reason`.
    package var reason: String {
        switch kind {
        case .busy: "store_busy"
        case .system: "store_system_call"
        case .wrongKey: "store_wrong_key"
        case .damaged: "store_damaged"
        case .newerVersion: "store_newer_version"
        case .unsafeMode: "store_unsafe_mode"
        case .foreignOwner: "store_foreign_owner"
        case .notRegular: "store_not_regular"
        case .unfit: "store_unfit"
        }
    }
}
