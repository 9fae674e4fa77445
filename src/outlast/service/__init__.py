"""Many endpoints: what is known of a target, shared by all who use it in this process."""
