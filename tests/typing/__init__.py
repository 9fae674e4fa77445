"""What type checkers say of the public face, with httpx2 installed and absent."""
