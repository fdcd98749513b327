/// Keys of `store:` that do not fit together.
extension FaultCases {
    static let store: [Case] = [
        (
            whole + "store: {key_file: token}\n",
            [
                "lanyard.yaml:8:19: store.key_file: there is no store.path that it could seal; add path, or remove it"
            ]
        ),
        (
            whole + "store: {path: s}\n",
            [
                """
                lanyard.yaml:8:15: store.path: nothing to seal it with; add one of key_file, key_credential, \
                passphrase_file, passphrase_credential
                """
            ]
        ),
        (
            whole + "store: {path: s, key_file: token, passphrase_file: token}\n",
            [
                "lanyard.yaml:8:52: store: both key_file and passphrase_file; keep one of them"
            ]
        ),
        (
            whole + "store: {path: s, key_file: token, memory: true}\n",
            [
                "lanyard.yaml:8:43: store: both path and memory: true; keep one of them"
            ]
        ),
        (
            whole + "store: {memory: false}\n",
            [
                "lanyard.yaml:8:17: store.memory is false, and there is no store.path; add path and key_file, or remove memory"
            ]
        ),
        (
            whole + "store: {path: s, key_file: gone}\n",
            [
                "lanyard.yaml:8:28: store.key_file: gone does not exist; put the file there, or correct the path"
            ]
        ),
        (
            whole + "store: {path: s, key_credential: k}\n",
            [
                """
                lanyard.yaml:8:34: store.key_credential: systemd passed no credentials; add LoadCredential=k:/PATH to \
                the unit, or use key_file
                """
            ]
        ),
        (
            whole + "store: {path: s.lock, key_file: token}\n",
            [
                """
                lanyard.yaml:8:15: store.path: \"s.lock\" cannot be the name of the sealed file; name a file that \
                does not end in .lock, .open, .tmp or .used, with at most 180 bytes behind the last /
                """
            ]
        ),
        (whole + "store: {path: s, key_file: token}\n", []),
        (whole + "store: {path: s, passphrase_file: token, memory: false}\n", []),
        (whole + "store: {memory: true}\n", []),
    ]
}
